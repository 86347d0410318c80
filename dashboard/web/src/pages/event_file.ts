// Reads histograms and images from a trial's event file (TensorBoard format): each record is a length, its checksum, a protocol buffer and its
// checksum (tune/results/tensorboard_events.h writes them). Pure.

export interface HistogramAt {
  step: number;
  limits: number[];  // Upper end of each bucket, ascending.
  counts: number[];  // One count per limit.
  low: number;       // The smallest value, which is the lower end of the first bucket.
  high: number;
  count: number;
  mean: number;
}

export interface ImageAt {
  step: number;
  width: number;
  height: number;
  png: Uint8Array;
}

const kSteps = 100;              // Most steps kept of a histogram.
const kImages = 40;              // Most steps kept of an image.
const kRecordMax = 32 << 20;     // Bytes; a longer record makes the file invalid.
const kHead = 12, kFoot = 4;     // Length and checksum before the message, checksum after it.

// Keeps every 2^n-th item and the newest one, at most about `most_` in all.
class Spread<T> {
  private kept_: T[] = [];
  private newest_: T | undefined;
  private seen_ = 0;
  private every_ = 1;

  constructor(private readonly most_: number) {}

  add(one: T): void {
    if (this.seen_++ % this.every_ === 0) this.kept_.push(one);
    this.newest_ = one;
    if (this.kept_.length <= this.most_) return;
    this.kept_ = this.kept_.filter((_, i) => i % 2 === 0);
    this.every_ *= 2;
  }

  all(): T[] { return this.newest_ === undefined || this.kept_[this.kept_.length - 1] === this.newest_ ? this.kept_ : [...this.kept_, this.newest_]; }
}

export class EventFile {
  private rest_ = new Uint8Array(0);
  private broken_ = false;
  private readonly histograms_ = new Map<string, Spread<HistogramAt>>();
  private readonly images_ = new Map<string, Spread<ImageAt>>();

  // Reads the next bytes of the file. False: the file is invalid and further bytes are ignored.
  add(bytes: Uint8Array): boolean {
    let all = bytes;
    if (this.rest_.length) {
      all = new Uint8Array(this.rest_.length + bytes.length);
      all.set(this.rest_);
      all.set(bytes, this.rest_.length);
    }
    let at = 0;
    while (!this.broken_ && all.length - at >= kHead) {
      const view = new DataView(all.buffer, all.byteOffset + at);
      const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32;
      if (length > kRecordMax) this.broken_ = true;
      if (this.broken_ || all.length - at < kHead + length + kFoot) break;
      try {
        this.event(all.subarray(at + kHead, at + kHead + length));
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        this.broken_ = true;
      }
      at += kHead + length + kFoot;
    }
    this.rest_ = all.slice(at);
    return !this.broken_;
  }

  histograms(): [string, HistogramAt[]][] { return sorted(this.histograms_); }
  images(): [string, ImageAt[]][] { return sorted(this.images_); }

  private event(bytes: Uint8Array): void {
    const event = message(bytes);
    const step = Number(event.get(2)?.[0] ?? 0);
    for (const summary of parts(event, 5)) {
      for (const value of parts(message(summary), 1).map(message)) {
        const name = new TextDecoder().decode(parts(value, 1)[0]);
        for (const image of parts(value, 4).map(message)) keep(this.images_, name, kImages, image_of(step, image));
        for (const histogram of parts(value, 5).map(message)) keep(this.histograms_, name, kSteps, histogram_of(step, histogram));
      }
    }
  }
}

function keep<T>(all: Map<string, Spread<T>>, name: string, most: number, one: T): void {
  const known = all.get(name) ?? new Spread<T>(most);
  all.set(name, known);
  known.add(one);
}

const sorted = <T>(all: Map<string, Spread<T>>): [string, T[]][] => [...all].map(([name, one]): [string, T[]] => [name, one.all()]).sort((a, b) => (a[0] < b[0] ? -1 : 1));

type Message = Map<number, (number | Uint8Array)[]>;
const parts = (of: Message, field: number) => (of.get(field) ?? []).filter((one): one is Uint8Array => typeof one !== "number");
const number_of = (of: Message, field: number) => Number(of.get(field)?.[0] ?? 0);

// Splits a protocol buffer into fields by number. RangeError: truncated or invalid.
function message(bytes: Uint8Array): Message {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fields: Message = new Map();
  let at = 0;
  const whole = () => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = view.getUint8(at++);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = whole();
    const [field, wire] = [Math.floor(tag / 8), tag % 8];
    let value: number | Uint8Array;
    if (wire === 0) value = whole();
    else if (wire === 1) value = view.getFloat64((at += 8) - 8, true);
    else if (wire === 5) value = view.getFloat32((at += 4) - 4, true);
    else if (wire === 2) {
      const length = whole();
      if (length > bytes.length - at) throw new RangeError("a field is longer than its message");
      value = bytes.subarray(at, (at += length));
    } else throw new RangeError("no protocol buffer");
    const known = fields.get(field);
    if (known) known.push(value);
    else fields.set(field, [value]);
  }
  return fields;
}

function reals(of: Message, field: number): number[] {
  return (of.get(field) ?? []).flatMap((one) => {
    if (typeof one === "number") return [one];
    const view = new DataView(one.buffer, one.byteOffset, one.byteLength);
    return Array.from({ length: Math.floor(one.length / 8) }, (_, i) => view.getFloat64(i * 8, true));
  });
}

const image_of = (step: number, of: Message): ImageAt => ({ step, width: number_of(of, 2), height: number_of(of, 1), png: (parts(of, 4)[0] ?? new Uint8Array(0)).slice() });

function histogram_of(step: number, of: Message): HistogramAt {
  const [limits, counts] = [reals(of, 6), reals(of, 7)];
  const [low, high, count] = [number_of(of, 1), number_of(of, 2), number_of(of, 3)];
  return { step, limits, counts: counts.slice(0, limits.length), low, high, count, mean: count ? number_of(of, 4) / count : NaN };
}

// Returns the quantile at `share`, with values spread evenly within each bucket. NaN: no values.
export function quantile(of: HistogramAt, share: number): number {
  const total = of.counts.reduce((sum, one) => sum + one, 0);
  let left = share * total;
  let from = of.low;
  for (let i = 0; i < of.counts.length; i++) {
    const to = Math.min(of.limits[i], of.high);
    if (left <= of.counts[i] && of.counts[i] > 0) return from + (to - from) * (left / of.counts[i]);
    left -= of.counts[i];
    from = Math.max(from, to);
  }
  return total ? of.high : NaN;
}
