// Writes a trial's event file in the format of tune/results/tensorboard_events.h: histograms of weights and an image over the steps. Checksums are 0.
import { crc32, deflateSync } from "node:zlib";

const varint = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...varint(Math.floor(value / 128))]);
const integer = (field, value) => Buffer.from([...varint(field * 8), ...varint(value)]);
const part = (field, bytes) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(bytes.length)]), bytes]);
const doubles = (values) => { const out = Buffer.alloc(8 * values.length); values.forEach((value, i) => out.writeDoubleLE(value, 8 * i)); return out; };
const real = (field, value) => Buffer.concat([Buffer.from(varint(field * 8 + 1)), doubles([value])]);
const record = (event) => { const head = Buffer.alloc(12); head.writeUInt32LE(event.length, 0); return Buffer.concat([head, event, Buffer.alloc(4)]); };

function chunk(type, bytes) {
  const body = Buffer.concat([Buffer.from(type), bytes]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(bytes.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}
function png(width, height, pixel) {
  const rows = Buffer.alloc((width * 3 + 1) * height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) Buffer.from(pixel(x, y)).copy(rows, y * (width * 3 + 1) + 1 + 3 * x);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

function histogram(name, center, spread) {
  const limits = Array.from({ length: 30 }, (_, i) => center + spread * (-3 + (i + 1) * 0.2));
  const counts = limits.map((limit) => Math.round(400 * Math.exp(-(((limit - 0.1 * spread - center) / spread) ** 2) / 2)));
  const count = counts.reduce((sum, one) => sum + one, 0);
  const body = Buffer.concat([real(1, center - 3 * spread), real(2, center + 3 * spread), real(3, count), real(4, center * count), real(5, 0), part(6, doubles(limits)), part(7, doubles(counts))]);
  return part(1, Buffer.concat([part(1, Buffer.from(name)), part(5, body)]));
}
function image(name, step) {
  const picture = png(28, 28, (x, y) => { const near = Math.exp(-((x - 14) ** 2 + (y - 14) ** 2) / (20 + 3 * step)); return [255 * near, 90 * near + 3 * (x ^ y), 160 * (1 - near)].map((one) => Math.max(0, Math.min(255, Math.round(one)))); });
  return part(1, Buffer.concat([part(1, Buffer.from(name)), part(4, Buffer.concat([integer(1, 28), integer(2, 28), integer(3, 3), part(4, picture)]))]));
}

export const kEventFile = Buffer.concat(Array.from({ length: 24 }, (_, i) => i + 1).map((step) => record(Buffer.concat([integer(2, step), part(5, Buffer.concat([
  histogram("layer1/weights", 0.02 * step, 0.6 + 0.02 * step), histogram("layer2/weights", -0.05 * step, 0.3), image("filters", step),
]))]))));
