// The one live connection of a tab: subscriptions, reconnects with back-off, silence while the tab is hidden.
// Clock, socket and timers come from outside, so that tests need neither.
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
  after(ms: number, run: () => void): () => void;  // Returns what cancels it.
  random(): number;
}

export type Link = "connecting" | "live" | "waiting" | "paused" | "closed";

const kMerge: Partial<Record<Topic, Merge>> = { curves: "points", series: "points", events: "lines", logs: "lines" };
const kBackoffFirst = 500;
const kBackoffMax = 15_000;
const kSilenceMax = 25_000;  // A ping goes out after this, and the link is given up after twice as long.
const kLinger = 3_000;       // A subscription that nobody looks at stays this long: going back to a page shows it at once.

interface Subscription {
  id: number;
  key: string;
  topic: Topic;
  filter: Filter;
  collection: Collection<Row>;
  users: number;
  cancel_linger: (() => void) | null;
}

export class Connection {
  readonly link: Signal<Link> = signal("closed");
  readonly retry_at: Signal<number> = signal(0);     // When link is "waiting".
  readonly restarted: Signal<number> = signal(0);    // Counts other instances of the head met after the first.
  readonly lost_once: Signal<boolean> = signal(false);
  clock_offset = 0;  // The head's clock less ours, in ms.
  instance = "";
  on_refused: () => void = () => {};  // The socket closed before its first message, perhaps because the session ended.

  private socket_: Socket | null = null;
  private subscriptions_ = new Map<string, Subscription>();
  private by_id_ = new Map<number, Subscription>();
  private next_id_ = 1;
  private attempts_ = 0;
  private greeted_ = false;
  private heard_at_ = 0;
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

  // While hidden nothing is subscribed and nothing is tried; what was held stays on the screen.
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

  // Rows of a topic; subscribed as long as somebody holds it.
  hold<K extends Topic>(topic: K, filter: Filter = {}): Collection<Topics[K]> {
    const key = topic + " " + JSON.stringify(filter);
    let one = this.subscriptions_.get(key);
    if (!one) {
      const collection = new Collection<Row>(kMerge[topic] ?? "replace");
      one = { id: this.next_id_++, key, topic, filter, collection, users: 0, cancel_linger: null };
      this.subscriptions_.set(key, one);
      this.by_id_.set(one.id, one);
      if (this.greeted_) this.subscribe(one);
    }
    one.cancel_linger?.();
    one.cancel_linger = null;
    one.users++;
    return one.collection as unknown as Collection<Topics[K]>;
  }

  release<K extends Topic>(topic: K, filter: Filter = {}): void {
    const one = this.subscriptions_.get(topic + " " + JSON.stringify(filter));
    if (!one || --one.users > 0) return;
    one.cancel_linger = this.around.after(kLinger, () => this.forget(one));
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
      return this.on_lost();  // Not our protocol: begin anew.
    }
    if (message.type === "hello") return this.on_hello(message);
    if (message.type === "bye") return this.on_lost();
    if (message.type === "pong") return;
    const collection = message.id === undefined ? undefined : this.by_id_.get(message.id)?.collection;
    if (!collection) return;
    if (message.type === "snap") collection.on_snapshot(message.seq, message.rows ?? [], message.more ?? false);
    if (message.type === "delta") collection.on_delta(message.seq, message.upserts ?? [], message.deletes ?? []);
    if (message.type === "error") collection.on_error(message.code, message.detail);
  }

  private on_hello(hello: Extract<ServerMessage, { type: "hello" }>): void {
    if (this.instance && this.instance !== hello.instance) this.restarted.value++;
    this.instance = hello.instance;
    this.clock_offset = hello.server_time_ms - this.around.now();
    this.greeted_ = true;
    this.attempts_ = 0;
    this.link.value = "live";
    for (const one of this.subscriptions_.values()) this.subscribe(one);
  }

  private subscribe(one: Subscription): void {
    one.collection.restart();
    const filter = Object.keys(one.filter).length ? { filter: one.filter } : {};
    this.send({ op: "sub", id: one.id, topic: one.topic, ...filter });
  }

  private send(message: object): void {
    this.socket_?.send(JSON.stringify(message));
  }

  private on_lost(): void {
    const refused = !this.greeted_;
    this.drop("waiting");
    this.lost_once.value = true;
    const wait = Math.min(kBackoffMax, kBackoffFirst * 2 ** this.attempts_++) * (0.75 + this.around.random() / 2);
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

  // A cable that was cut closes no socket: silence is answered by a ping, then by a new connection.
  private watch(): void {
    this.cancel_watch_ = this.around.after(kSilenceMax / 2, () => {
      const silent = this.around.now() - this.heard_at_;
      if (silent > 2 * kSilenceMax) return this.on_lost();
      if (this.greeted_ && silent > kSilenceMax) this.send({ op: "ping" });
      this.watch();
    });
  }
}
