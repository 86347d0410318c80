import assert from "node:assert/strict";
import { test } from "node:test";
import { EventFile, quantile, type HistogramAt } from "../src/pages/event_file";

const bytes_of = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
// Written by tests/integration/tensorboard_trials.cc: three steps with a histogram of 61 values, 0.1 apart, that begin at the step, and an
// image of 2 rows and 2 + step columns.
const kWritten = bytes_of(atob(
  "GAAAAAAAAACjf0siCZvE5GbJwdpBGg1icmFpbi5FdmVudDoyd73rH3EAAAAAAAAAnJfncwmbxORmycHaQSpmCmQKHF9ocGFyYW1zXy9zZXNzaW9uX3N0YXJ0X2luZm9KNQozCgdocGFyYW1zEigIAB" +
  "okCg8KAmxyEgkRANtHvUZH5z8iCGY4MzkxNWY2KZvE5GbJwdpBQg0IARIEEgIIAS0AAAAAURUmP6YCAAAAAAAAbJcMZAk1GepmycHaQRABKpQFCqUECg1sYXllci93ZWlnaHRzKpMECQAAAAAAAPA/" +
  "EQAAAAAAABxAGQAAAAAAgE5AIQAAAAAAgG5AKWdmZmZmNJJAMvABMzMzMzMz8z9mZmZmZmb2P5qZmZmZmfk/zczMzMzM/D8AAAAAAAAAQJqZmZmZmQFANDMzMzMzA0DNzMzMzMwEQGZmZmZmZgZAAA" +
  "AAAAAACECamZmZmZkJQDQzMzMzMwtAzczMzMzMDEBnZmZmZmYOQAAAAAAAABBAzczMzMzMEECamZmZmZkRQGZmZmZmZhJANDMzMzMzE0AAAAAAAAAUQM3MzMzMzBRAmpmZmZmZFUBnZmZmZmYWQDQz" +
  "MzMzMxdAAAAAAAAAGEDNzMzMzMwYQJqZmZmZmRlAZ2ZmZmZmGkA0MzMzMzMbQAAAAAAAABxAOvABAAAAAAAACEAAAAAAAAAAQAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAE" +
  "AAAAAAAAAAQAAAAAAAAAhAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAhAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAABA" +
  "AAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAhACmoKBnNhbXBsZSJgCAIQAxgDIliJUE5HDQoaCgAAAA1JSERSAAAAAw" +
  "AAAAIIAgAAABIW8U0AAAAfSURBVHgBARQA6/8AAAH/CgH/FAH/AB4B/ygB/zIB/zpSBpexP/F4AAAAAElFTkSuQmCC4nYBMb8+V2FIAAAAAAAAAP6SSJ0JNRnqZsnB2kEQASo7CgsKBGxvc3MVNjo6" +
  "PwoXChB0aW1lX3RoaXNfaXRlcl9zFdCDazoKEwoMdGltZV90b3RhbF9zFdCDazpdWufwrAIAAAAAAADr9iLfCYgr6mbJwdpBEAIqmgUKpQQKDWxheWVyL3dlaWdodHMqkwQJAAAAAAAAAEARAAAAAA" +
  "AAIEAZAAAAAACATkAhAAAAAAAQc0ApZ2ZmZmbImkAy8AGamZmZmZkBQDMzMzMzMwNAzczMzMzMBEBmZmZmZmYGQAAAAAAAAAhAmpmZmZmZCUA0MzMzMzMLQM3MzMzMzAxAZmZmZmZmDkAAAAAAAAAQ" +
  "QM3MzMzMzBBAmpmZmZmZEUBmZmZmZmYSQDQzMzMzMxNAAAAAAAAAFEDNzMzMzMwUQJqZmZmZmRVAZmZmZmZmFkA0MzMzMzMXQAAAAAAAABhAzczMzMzMGECamZmZmZkZQGdmZmZmZhpANDMzMzMzG0" +
  "AAAAAAAAAcQM3MzMzMzBxAmpmZmZmZHUBnZmZmZmYeQDQzMzMzMx9AAAAAAAAAIEA68AEAAAAAAAAAQAAAAAAAAAhAAAAAAAAA8D8AAAAAAAAIQAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAAQAAAAAAA" +
  "AABAAAAAAAAACEAAAAAAAADwPwAAAAAAAABAAAAAAAAAAEAAAAAAAAAIQAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAACEAAAAAAAADwPwAAAAAAAABAAAAAAAAAAEAAAAAAAA" +
  "AAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAACEAKcAoGc2FtcGxlImYIAhAEGAMiXolQTkcNChoKAAAADUlIRFIAAAAEAAAAAggC" +
  "AAAA8MrqNAAAACVJREFUeAEBGgDl/wAAAv8KAv8UAv8eAv8AKAL/MgL/PAL/RgL/ap4JIe5CISwAAAAASUVORK5CYILidgEx+aAdYUgAAAAAAAAA/pJInQm/K+pmycHaQRACKjsKCwoEbG9zcxU2Or" +
  "o+ChcKEHRpbWVfdGhpc19pdGVyX3MVGfFwOAoTCgx0aW1lX3RvdGFsX3MV4ZJ6OuojkdayAgAAAAAAABvRvXgJ4y7qZsnB2kEQAyqgBQqlBAoNbGF5ZXIvd2VpZ2h0cyqTBAkAAAAAAAAIQBEAAAAA" +
  "AAAiQBkAAAAAAIBOQCEAAAAAAOB2QCk0MzMzM6KiQDLwAZqZmZmZmQlAMzMzMzMzC0DNzMzMzMwMQGZmZmZmZg5AAAAAAAAAEEDNzMzMzMwQQJqZmZmZmRFAZmZmZmZmEkAzMzMzMzMTQAAAAAAAAB" +
  "RAzczMzMzMFECamZmZmZkVQGZmZmZmZhZANDMzMzMzF0AAAAAAAAAYQM3MzMzMzBhAmpmZmZmZGUBmZmZmZmYaQDQzMzMzMxtAAAAAAAAAHEDNzMzMzMwcQJqZmZmZmR1AZ2ZmZmZmHkA0MzMzMzMf" +
  "QAAAAAAAACBAZmZmZmZmIEDNzMzMzMwgQDQzMzMzMyFAmpmZmZmZIUAAAAAAAAAiQDrwAQAAAAAAAABAAAAAAAAACEAAAAAAAADwPwAAAAAAAAhAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAABAAAAAAA" +
  "AACEAAAAAAAAAAQAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAAQAAAAAAAAAhAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAIQAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAAQAAAAAAA" +
  "AABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAACEAAAAAAAADwPwAAAAAAAABAAAAAAAAAAEAAAAAAAAAIQAp2CgZzYW1wbGUibAgCEAUYAyJkiVBORw0KGgoAAAANSUhEUgAAAAUAAAACCA" +
  "IAAAAfCIEKAAAAK0lEQVR4AQEgAN//AAAD/woD/xQD/x4D/ygD/wAyA/88A/9GA/9QA/9aA/+rJAvXRkluXQAAAABJRU5ErkJgguJ2ATEJiS/ZSAAAAAAAAAD+kkidCeMu6mbJwdpBEAMqOwoLCgRs" +
  "b3NzFZ1NeD4KFwoQdGltZV90aGlzX2l0ZXJfcxX+dWg4ChMKDHRpbWVfdG90YWxfcxUhjYQ62vhXmVYAAAAAAAAATi3isgnucupmycHaQSpLCkkKGl9ocGFyYW1zXy9zZXNzaW9uX2VuZF9pbmZvSh" +
  "wKGgoHaHBhcmFtcxIPCAAiCwgBEe5y6mbJwdpBQg0IARIEEgIIAS0AAAAAGbRSUg=="));

const read = (bytes: Uint8Array, piece: number) => {
  const file = new EventFile();
  let on = true;
  for (let at = 0; at < bytes.length && on; at += piece) on = file.add(bytes.subarray(at, at + piece));
  return { file, on };
};

test("histograms and images are read from a trial's event file, however its bytes come", () => {
  for (const piece of [1, 7, 1000, 1e6]) {
    const { file, on } = read(kWritten, piece);
    assert.equal(on, true);
    const [[name, steps], ...others] = file.histograms();
    assert.deepEqual([name, others.length], ["layer/weights", 0]);
    assert.deepEqual(steps.map((one) => [one.step, one.low, one.high, one.count, Number(one.mean.toFixed(9))]), [[1, 1, 7, 61, 4], [2, 2, 8, 61, 5], [3, 3, 9, 61, 6]]);
    assert.equal(steps[0].counts.reduce((sum, many) => sum + many, 0), 61);
    assert.equal(steps[0].limits.length, steps[0].counts.length);
    const [[image, pictures]] = file.images();
    assert.equal(image, "sample");
    assert.deepEqual(pictures.map((one) => [one.step, one.width, one.height]), [[1, 3, 2], [2, 4, 2], [3, 5, 2]]);
    assert.ok(pictures.every((one) => new TextDecoder().decode(one.png.subarray(1, 4)) === "PNG"));
  }
});

test("what is torn is left out; what is no event file is read no further", () => {
  const { file, on } = read(kWritten.subarray(0, kWritten.length - 5), 1e6);
  assert.deepEqual([on, file.histograms()[0][1].length], [true, 3]);
  assert.equal(read(bytes_of("loss,step\n0.5,1\n0.25,2\n"), 1e6).on, false);
  const wrong = kWritten.slice();
  wrong.fill(255, 12, 30);
  assert.equal(read(wrong, 1e6).on, false);
});

test("of many steps some are kept, from the first to the newest", () => {
  const file = new EventFile();
  const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)]);
  const part = (field: number, bytes: number[]) => [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes];
  for (let step = 1; step <= 1001; step++) {
    const event = [16, ...varint(step), ...part(5, part(1, [...part(1, [104]), ...part(5, [])]))];
    file.add(Uint8Array.from([...new Uint8Array(new Uint32Array([event.length, 0, 0]).buffer), ...event, 0, 0, 0, 0]));
  }
  const steps = file.histograms()[0][1].map((one) => one.step);
  assert.ok(steps.length <= 101 && steps.length > 50, String(steps.length));
  assert.deepEqual([steps[0], steps[1] - steps[0], steps[steps.length - 1]], [1, 16, 1001]);
});

test("quantiles of a histogram spread its values evenly within each bucket", () => {
  const of: HistogramAt = { step: 1, limits: [1, 2, 3], counts: [10, 0, 30], low: 0, high: 3, count: 40, mean: 2 };
  assert.deepEqual([0, 0.125, 0.25, 0.625, 1].map((share) => quantile(of, share)), [0, 0.5, 1, 2.5, 3]);
  assert.ok(Number.isNaN(quantile({ ...of, counts: [0, 0, 0] }, 0.5)));
});
