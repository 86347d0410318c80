// Archives of code folders, as the head stores them (runtime/files/directory_archive.h). What the page packs is stored without compression. Pure.
import { Decompress } from "fzstd";

export interface CodeFile {
  path: string;  // Relative, with slashes.
  data: Uint8Array;
  executable?: boolean;
}
export interface CodeEntry extends CodeFile {
  folder: boolean;
}

const kMagic = new TextEncoder().encode("VLDARC01");
const kBlock = 128 << 10;  // The largest of Zstandard.
const kDigest = 32;

// ---- SHA-256: crypto.subtle is only there on HTTPS and loopback. ----

const kRounds = new Uint32Array(64);
const kStart = new Uint32Array(8);
{
  // The first bits of the fractional parts of roots of the first primes.
  const fraction = (value: number) => Math.floor((value - Math.floor(value)) * 2 ** 32);
  let found = 0;
  for (let n = 2; found < 64; ++n) {
    let prime = true;
    for (let d = 2; d * d <= n; ++d) if (n % d === 0) prime = false;
    if (!prime) continue;
    if (found < 8) kStart[found] = fraction(Math.sqrt(n));
    kRounds[found++] = fraction(Math.cbrt(n));
  }
}

export class Sha256 {
  private readonly state = kStart.slice();
  private readonly words = new Uint32Array(64);
  private readonly rest = new Uint8Array(64);
  private filled = 0;
  private bytes = 0;

  update(data: Uint8Array): this {
    this.bytes += data.length;
    let at = 0;
    if (this.filled) {
      at = Math.min(64 - this.filled, data.length);
      this.rest.set(data.subarray(0, at), this.filled);
      this.filled += at;
      if (this.filled < 64) return this;
      this.block(this.rest, 0);
      this.filled = 0;
    }
    for (; at + 64 <= data.length; at += 64) this.block(data, at);
    this.rest.set(data.subarray(at));
    this.filled = data.length - at;
    return this;
  }

  digest(): Uint8Array {
    const bits = this.bytes * 8;
    const tail = new Uint8Array((this.filled < 56 ? 64 : 128) - this.filled);
    tail[0] = 0x80;
    const view = new DataView(tail.buffer);
    view.setUint32(tail.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(tail.length - 4, bits >>> 0);
    this.update(tail);
    const out = new Uint8Array(kDigest);
    this.state.forEach((word, i) => new DataView(out.buffer).setUint32(4 * i, word));
    return out;
  }

  private block(data: Uint8Array, at: number): void {
    const { words, state } = this;
    for (let i = 0; i < 16; ++i) words[i] = (data[at + 4 * i] << 24) | (data[at + 4 * i + 1] << 16) | (data[at + 4 * i + 2] << 8) | data[at + 4 * i + 3];
    const turn = (x: number, n: number) => (x >>> n) | (x << (32 - n));
    for (let i = 16; i < 64; ++i) {
      const a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + words[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; ++i) {
      const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[i] + words[i]) | 0;
      const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + first) | 0; d = c; c = b; b = a; a = (first + second) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { state[i] += word; });
  }
}
export const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// ---- Packing ----

function header(kind: number, mode: number, size: number, path: Uint8Array): Uint8Array {
  const out = new Uint8Array(13 + path.length);
  const view = new DataView(out.buffer);
  view.setUint8(0, kind);
  view.setUint16(1, mode, true);
  view.setUint16(3, path.length, true);
  view.setBigUint64(5, BigInt(size), true);
  out.set(path, 13);
  return out;
}

// Names in order of their bytes, each folder before its contents.
function entries_of(files: CodeFile[]): { name: string; file?: CodeFile }[] {
  const all = new Map<string, CodeFile | undefined>();
  for (const file of files) {
    const parts = file.path.split("/");
    for (let i = 1; i < parts.length; ++i) all.set(parts.slice(0, i).join("/"), undefined);
    all.set(file.path, file);
  }
  const bytes = new TextEncoder();
  const keyed = [...all].map(([name, file]) => ({ name, file, key: bytes.encode(name) }));
  return keyed.sort((a, b) => {
    const end = Math.min(a.key.length, b.key.length);
    for (let i = 0; i < end; ++i) if (a.key[i] !== b.key[i]) return a.key[i] - b.key[i];
    return a.key.length - b.key.length;
  });
}

const joined = (parts: Uint8Array[]): Uint8Array => {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
};

// A Zstandard frame of raw blocks, with a window of one block.
function stored(content: Uint8Array): Uint8Array {
  const blocks = Math.max(1, Math.ceil(content.length / kBlock));
  const out = new Uint8Array(6 + content.length + 3 * blocks);
  out.set([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38]);
  let at = 6;
  for (let i = 0; i < blocks; ++i) {
    const part = content.subarray(i * kBlock, (i + 1) * kBlock);
    const head = (part.length << 3) | Number(i === blocks - 1);
    out.set([head & 255, (head >> 8) & 255, (head >> 16) & 255], at);
    out.set(part, at + 3);
    at += 3 + part.length;
  }
  return out;
}

// Equal files give equal archives, so that the head keeps one of them. `sha256`: of the whole archive, as Jobs/PutJobFiles takes it.
export function pack_code(files: CodeFile[]): { archive: Uint8Array; sha256: string } {
  const names = new TextEncoder();
  const parts: Uint8Array[] = [];
  const entries = entries_of(files);
  let bytes = 0;
  for (const { name, file } of entries) {
    const path = names.encode(name);
    if (!file) {
      parts.push(header(1, 0o755, 0, path));
      continue;
    }
    parts.push(header(2, file.executable ? 0o755 : 0o644, file.data.length, path), file.data);
    bytes += file.data.length;
  }
  const end = new Uint8Array(17);
  const view = new DataView(end.buffer);
  view.setBigUint64(1, BigInt(entries.length), true);
  view.setBigUint64(9, BigInt(bytes), true);
  const body = joined([kMagic, stored(joined([...parts, end]))]);
  const archive = joined([body, new Sha256().update(body).digest()]);
  return { archive, sha256: hex(new Sha256().update(archive).digest()) };
}

// ---- Reading ----

export class ArchiveError extends Error {
  constructor(readonly why: "corrupt" | "large") { super(why); }
}

export function unpack_code(archive: Uint8Array, most_bytes: number): CodeEntry[] {
  const end = archive.length - kDigest;
  if (end < kMagic.length || kMagic.some((byte, i) => archive[i] !== byte)) throw new ArchiveError("corrupt");
  if (hex(new Sha256().update(archive.subarray(0, end)).digest()) !== hex(archive.subarray(end))) throw new ArchiveError("corrupt");
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const stream = new Decompress((part) => {
    bytes += part.length;
    if (bytes > most_bytes) throw new ArchiveError("large");
    parts.push(part.slice());
  });
  try {
    stream.push(archive.subarray(kMagic.length, end), true);
  } catch (error) {
    throw error instanceof ArchiveError ? error : new ArchiveError("corrupt");
  }
  return entries_in(joined(parts));
}

function entries_in(content: Uint8Array): CodeEntry[] {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  const names = new TextDecoder();
  const out: CodeEntry[] = [];
  let at = 0;
  for (;;) {
    const kind = content[at];
    if (kind === 0) return out;
    if ((kind !== 1 && kind !== 2) || at + 13 > content.length) throw new ArchiveError("corrupt");
    const [mode, length, size] = [view.getUint16(at + 1, true), view.getUint16(at + 3, true), Number(view.getBigUint64(at + 5, true))];
    const body = at + 13 + length;
    const end = body + size;
    if (end > content.length) throw new ArchiveError("corrupt");
    out.push({ path: names.decode(content.subarray(at + 13, body)), folder: kind === 1, data: content.subarray(body, end), executable: (mode & 0o100) !== 0 });
    at = end;
  }
}

// ---- Base64, for JSON ----

export function to_base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
export const from_base64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// A text, or null: bytes that are no text.
export function text_in(data: Uint8Array): string | null {
  if (data.subarray(0, 8000).includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return null;
  }
}
