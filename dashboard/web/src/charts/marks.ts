// Marks of a chart under the pointer.
import type { Paper } from "./canvas";
import { css } from "./colors";

const kReach = 14;  // In px.

export function closest<Mark extends { x: number; y: number }>(marks: Mark[], x: number, y: number): Mark | null {
  let [best, far]: [Mark | null, number] = [null, kReach];
  for (const mark of marks) {
    const distance = Math.hypot(mark.x - x, mark.y - y);
    if (distance < far) [best, far] = [mark, distance];
  }
  return best;
}

export function ring({ canvas }: Paper, mark: { x: number; y: number }): void {
  canvas.strokeStyle = css("text");
  canvas.lineWidth = 1.5;
  canvas.beginPath();
  canvas.arc(mark.x, mark.y, 7, 0, 2 * Math.PI);
  canvas.stroke();
}
