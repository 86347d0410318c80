// The live connection of a tab: subscriptions, reconnection with back-off, and no traffic while the tab is hidden.
// Clock, socket and timers are injected for tests.
import { signal, type Signal } from "@preact/signals";
import { Collection, type Merge } from "./collection";
import type { Filter, Row, ServerMessage, Topic, Topics } from "./protocol";

export interface Socket {
  send(text: string): void;
  close(): void;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: (() => void) | null;
}

export interface Surroundings {
  open(): Socket;
  now(): number;
  after(ms: number, run: () => void): () => void;  // Returns a function that cancels it.
  random(): number;
}

export type Link = "connecting" | "live" | "waiting" | "paused" | "closed";

const kMerge: Partial<Record<Topic, Merge>> = { curves: "points", series: "points", events: "lines", logs: "lines" };
const kBackoffFirst = 500;
const kBackoffMaxSoon = 2_000;  // Maximum during the first minute: a restarted head is usually back within seconds.
const kBackoffSoon = 60_000;
const kBackoffMax = 15_000;
export const kBehind = 6_000;   // The head sends "current" every 2 s; without one for three periods the page is stale.
const kOffsets = 8;             // The clock offset is the greatest of this many heartbeats, which is the one with the least delay.
const kWantBytesMax = 15_000;   // Per message; the head accepts 16 KiB. A longer list of trials is not sent, and the head then sends all curves.
const kSilenceMax = 25_000;  // A ping is sent after this silence; the link is closed after twice as long.
const kLinger = 3_000;       // An unused subscription stays this long, so that returning to a page shows its rows at once.

// A subset of a topic's lines that one view shows, with a name of its own. The list may change while it is held.
export interface Part {
  as: string;
  trials: string[];
}

interface Subscription {
  id: number;
  key: string;
  topic: Topic;
  filter: Filter;
  trials: string[] | null;  // For curves: the trials to send; null: all.
  collection: Collection<Row>;
  users: number;
  cancel_linger: (() => void) | null;
}

export class Connection {
  readonly link: Signal<Link> = signal("closed");
  readonly retry_at: Signal<number> = signal(0);     // While link is "waiting".
  readonly restarted: Signal<number> = signal(0);    // Counts restarts of the head since the page was opened.
  readonly lost_once: Signal<boolean> = signal(false);
  readonly current_at: Signal<number> = signal(0);   // The head's time of the last "current": the page has had all rows up to it.
  clock_offset = 0;  // The head's clock minus the local clock, in ms.
  instance = "";
  on_refused: () => void = () => {};  // Called when the socket closes before its first message, for example because the session ended.

  private socket_: Socket | null = null;
  private subscriptions_ = new Map<string, Subscription>();
  private by_id_ = new Map<number, Subscription>();
  private next_id_ = 1;
  private attempts_ = 0;
  private greeted_ = false;
  private heard_at_ = 0;
  private lost_at_ = 0;          // Start of the current outage.
  private offsets_: number[] = [];
  private cancel_retry_: (() => void) | null = null;
  private cancel_watch_: (() => void) | null = null;

  constructor(readonly around: Surroundings) {}

  start(): void {
    if (this.socket_ || this.link.value === "waiting") return;
    this.open();
  }

  stop(): void {
    this.drop("closed");
    for (const one of this.subscriptions_.values()) one.cancel_linger?.();
    this.subscriptions_.clear();
    this.by_id_.clear();
    this.instance = "";
    this.attempts_ = 0;
  }

  // A hidden tab closes its connection and does not reconnect; its rows stay.
  set_hidden(hidden: boolean): void {
    if (hidden && this.link.value !== "closed") {
      this.drop("paused");
    } else if (!hidden && this.link.value === "paused") {
      this.open();
    }
  }

  retry_now(): void {
    if (this.link.value !== "waiting") return;
    this.cancel_retry_?.();
    this.open();
  }

  // Age of the rows in ms: the time since the last "current" of the head.
  age(): number {
    return this.current_at.value === 0 ? 0 : Math.max(0, this.around.now() + this.clock_offset - this.current_at.value);
  }

  // Returns the rows of a topic and subscribes to it. The subscription ends after kLinger unless hold() follows.
  peek<K extends Topic>(topic: K, filter: Filter = {}, part?: Part): Collection<Topics[K]> {
    const key = key_of(topic, filter, part);
    let one = this.subscriptions_.get(key);
    if (!one) {
      const collection = new Collection<Row>(kMerge[topic] ?? "replace");
      const made: Subscription = { id: this.next_id_++, key, topic, filter, trials: part?.trials ?? null, collection, users: 0, cancel_linger: null };
      one = made;
      this.subscriptions_.set(key, one);
      this.by_id_.set(one.id, one);
      if (this.greeted_) this.subscribe(one);
      made.cancel_linger = this.around.after(kLinger, () => this.forget(made));
    }
    return one.collection as unknown as Collection<Topics[K]>;
  }

  // Keeps the subscription until release().
  hold<K extends Topic>(topic: K, filter: Filter = {}, part?: Part): Collection<Topics[K]> {
    const collection = this.peek(topic, filter, part);
    const one = this.subscriptions_.get(key_of(topic, filter, part))!;
    one.cancel_linger?.();
    one.cancel_linger = null;
    one.users++;
    return collection;
  }

  release<K extends Topic>(topic: K, filter: Filter = {}, part?: Part): void {
    const one = this.subscriptions_.get(key_of(topic, filter, part));
    if (!one || --one.users > 0) return;
    one.cancel_linger = this.around.after(kLinger, () => this.forget(one));
  }

  // Replaces the trials of a part that is held.
  want<K extends Topic>(topic: K, filter: Filter, part: Part): void {
    const one = this.subscriptions_.get(key_of(topic, filter, part));
    if (!one || one.trials?.join() === part.trials.join()) return;
    one.trials = part.trials;
    if (this.greeted_) this.send({ op: "want", id: one.id, ...trials_of(one) });
  }

  private forget(one: Subscription): void {
    this.subscriptions_.delete(one.key);
    this.by_id_.delete(one.id);
    if (this.greeted_) this.send({ op: "unsub", id: one.id });
  }

  private open(): void {
    this.cancel_retry_ = null;
    this.greeted_ = false;
    this.link.value = "connecting";
    const socket = this.around.open();
    this.socket_ = socket;
    this.heard_at_ = this.around.now();
    socket.onmessage = (event) => {
      if (this.socket_ === socket && typeof event.data === "string") this.on_message(event.data);
    };
    socket.onclose = () => {
      if (this.socket_ === socket) this.on_lost();
    };
    this.watch();
  }

  private on_message(text: string): void {
    this.heard_at_ = this.around.now();
    let message: ServerMessage;
    try {
      message = JSON.parse(text) as ServerMessage;
    } catch {
      return this.on_lost();  // Not JSON: reconnect.
    }
    if (message.type === "hello") return this.on_hello(message);
    if (message.type === "bye") return this.on_lost();
    if (message.type === "pong") return;
    if (message.type === "current") return this.on_time(message.server_time_ms);
    const collection = message.id === undefined ? undefined : this.by_id_.get(message.id)?.collection;
    if (!collection) return;
    if (message.type === "snap") collection.on_snapshot(message.seq, message.rows ?? [], message.more ?? false);
    if (message.type === "delta") collection.on_delta(message.seq, message.upserts ?? [], message.deletes ?? []);
    if (message.type === "error") collection.on_error(message.code, message.detail);
  }

  private on_hello(hello: Extract<ServerMessage, { type: "hello" }>): void {
    if (this.instance && this.instance !== hello.instance) this.restarted.value++;
    this.instance = hello.instance;
    this.offsets_ = [];
    this.on_time(hello.server_time_ms);
    this.greeted_ = true;
    this.attempts_ = 0;
    this.link.value = "live";
    for (const one of this.subscriptions_.values()) this.subscribe(one);
  }

  private on_time(server_time_ms: number): void {
    this.offsets_ = [...this.offsets_.slice(1 - kOffsets), server_time_ms - this.around.now()];
    this.clock_offset = Math.max(...this.offsets_);
    this.current_at.value = server_time_ms;
  }

  private subscribe(one: Subscription): void {
    one.collection.restart();
    const filter = Object.keys(one.filter).length ? { filter: one.filter } : {};
    this.send({ op: "sub", id: one.id, topic: one.topic, ...filter, ...trials_of(one) });
  }

  private send(message: object): void {
    this.socket_?.send(JSON.stringify(message));
  }

  private on_lost(): void {
    const refused = !this.greeted_;
    if (this.attempts_ === 0) this.lost_at_ = this.around.now();
    this.drop("waiting");
    this.lost_once.value = true;
    const most = this.around.now() - this.lost_at_ < kBackoffSoon ? kBackoffMaxSoon : kBackoffMax;
    const wait = Math.min(most, kBackoffFirst * 2 ** this.attempts_++) * (0.75 + this.around.random() / 2);
    this.retry_at.value = this.around.now() + wait;
    this.cancel_retry_ = this.around.after(wait, () => this.open());
    if (refused) this.on_refused();
  }

  private drop(next: Link): void {
    const socket = this.socket_;
    this.socket_ = null;
    this.greeted_ = false;
    this.cancel_retry_?.();
    this.cancel_retry_ = null;
    this.cancel_watch_?.();
    this.cancel_watch_ = null;
    this.link.value = next;
    socket?.close();
  }

  // A broken network path does not close the socket, so silence triggers a ping and later a reconnect.
  private watch(): void {
    this.cancel_watch_ = this.around.after(kSilenceMax / 2, () => {
      const silent = this.around.now() - this.heard_at_;
      if (silent > 2 * kSilenceMax) return this.on_lost();
      if (this.greeted_ && silent > kSilenceMax) this.send({ op: "ping" });
      this.watch();
    });
  }
}

const key_of = (topic: Topic, filter: Filter, part: Part | undefined) => topic + " " + JSON.stringify(filter) + (part ? " " + part.as : "");

function trials_of(one: Subscription): { trials?: string[] } {
  return one.trials !== null && JSON.stringify(one.trials).length < kWantBytesMax ? { trials: one.trials } : {};
}
