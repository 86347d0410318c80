// Interpolates values between scattered points by inverse distance (Shepard 1968, power 3), as squares that fill a rectangle. Pure.

interface Point { x: number; y: number; value: number }  // x and y in px; value from 0 to 1.
interface Place { left: number; top: number; right: number; bottom: number }

const kSquare = 12;   // px
const kPoints = 400;  // Maximum of points; a larger set is sampled evenly, since each square reads all points.
const kSoft = 64;     // px²; smooths the peak at each point.

export function surface(points: Point[], place: Place): { x: number; y: number; width: number; height: number; value: number }[] {
  if (points.length < 3) return [];
  const every = Math.ceil(points.length / kPoints);
  const some = points.filter((_, i) => i % every === 0);
  const cells = [];
  for (let y = place.top; y < place.bottom; y += kSquare) {
    for (let x = place.left; x < place.right; x += kSquare) {
      let [sum, weights] = [0, 0];
      for (const point of some) {
        const weight = 1 / ((point.x - x - kSquare / 2) ** 2 + (point.y - y - kSquare / 2) ** 2 + kSoft) ** 1.5;
        sum += weight * point.value;
        weights += weight;
      }
      cells.push({ x, y, width: Math.min(kSquare, place.right - x), height: Math.min(kSquare, place.bottom - y), value: sum / weights });
    }
  }
  return cells;
}
