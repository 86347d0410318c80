// A command in a rank of a job, by requests to the head: output by long polls, input in its order.
import { ApiError, call } from "../api";

export interface Place {
  job: string;
  rank: number;
}
export interface Size {
  rows: number;
  columns: number;
}
interface Output {
  output: string;
  ended: boolean;
  exit_code: number;
}

const kWaitMs = 20_000;
const kPatienceMs = 60_000;  // After that the rank ends a command whose output has no reader.
const kInputMost = 32_000;  // Bytes a request; the head takes 64 KiB of JSON.
const kPauses = [50, 200, 1000];

export const to_base64 = (bytes: Uint8Array): string => {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
};
export const from_base64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));
const comes_back = (error: unknown) => error instanceof ApiError && (error.status === 0 || error.code === "kUnavailable" || error.code === "kTimeout");

export class Command {
  private closed_ = false;
  private waiting_: number[] = [];  // Bytes to send.
  private size_: Size | null = null;
  private sending_ = false;

  private constructor(private readonly place_: Place, private readonly id_: string) {}

  static async start(place: Place, size: Size): Promise<Command> {
    const path = `/api/v1/jobs/${encodeURIComponent(place.job)}/commands`;
    const { command } = await call<{ command: string }>("POST", path, { rank: place.rank, terminal: true, ...size });
    return new Command(place, command);
  }

  // Gives the output to `show` until the command ends; its exit code, or null if it was closed here.
  async read(show: (bytes: Uint8Array) => void): Promise<number | null> {
    let heard = Date.now();
    for (let failed = 0; ; ) {
      try {
        const reply = await this.ask<Output>("read", { wait_ms: kWaitMs });
        if (this.closed_) return null;
        [heard, failed] = [Date.now(), 0];
        if (reply.output) show(from_base64(reply.output));
        if (reply.ended) return reply.exit_code;
      } catch (error) {
        if (this.closed_) return null;
        if (!comes_back(error) || Date.now() - heard > kPatienceMs) throw error;
        await sleep(kPauses[Math.min(failed++, kPauses.length - 1)]);
      }
    }
  }

  write(bytes: Uint8Array): void {
    for (const byte of bytes) this.waiting_.push(byte);
    void this.send();
  }
  resize(size: Size): void {
    this.size_ = size;
    void this.send();
  }
  close(): void {
    if (this.closed_) return;
    this.closed_ = true;
    void this.ask("write", { close: true }).catch(() => {});  // The rank ends it when its output has no reader.
  }

  private async send(): Promise<void> {
    if (this.sending_) return;
    this.sending_ = true;
    for (let failed = 0; !this.closed_ && (this.waiting_.length > 0 || this.size_); ) {
      const bytes = this.waiting_.slice(0, kInputMost);
      const size = this.size_;
      try {
        await this.ask("write", { ...(bytes.length ? { input: to_base64(Uint8Array.from(bytes)) } : {}), ...size });
      } catch (error) {
        // Not taken, and so asked again; what else is wrong, the reader of the output is told.
        if (comes_back(error)) {
          await sleep(kPauses[Math.min(failed++, kPauses.length - 1)]);
          continue;
        }
      }
      failed = 0;
      this.waiting_.splice(0, bytes.length);
      if (this.size_ === size) this.size_ = null;
    }
    this.sending_ = false;
  }

  private ask<T>(act: "read" | "write", body: object): Promise<T> {
    return call<T>("POST", `/api/v1/jobs/${encodeURIComponent(this.place_.job)}/commands/${this.id_}:${act}`, { rank: this.place_.rank, ...body });
  }
}
