// Maps states of the head to icons and colour classes. Pure.
import type { IconName } from "./icons";

export type Tone = "live" | "good" | "calm" | "wait" | "warn" | "bad" | "off";

const kStates: Record<string, [IconName, Tone]> = {
  running: ["running", "live"],
  starting: ["waiting", "live"],
  queued: ["waiting", "wait"],
  succeeded: ["good", "good"],
  job_stopped: ["stopped", "calm"],
  finished: ["good", "good"],
  stopped: ["stopped", "calm"],
  failed: ["bad", "bad"],
  done: ["good", "good"],
  refused: ["bad", "bad"],
  unknown_outcome: ["warning", "warn"],
  waiting: ["waiting", "wait"],
  pending: ["waiting", "wait"],
  paused: ["paused", "wait"],
  crashed: ["bad", "bad"],
  interrupted: ["gone", "off"],
  unstarted: ["waiting", "off"],
  alive: ["alive", "good"],
  connected: ["alive", "good"],
  active: ["alive", "good"],
  ready: ["alive", "good"],
  rescheduling: ["waiting", "warn"],
  removed: ["gone", "off"],
  in_memory: ["alive", "good"],
  both: ["alive", "good"],
  spilled: ["down", "calm"],
  freed: ["gone", "off"],
  awaited: ["waiting", "wait"],
  suspect: ["warning", "warn"],
  unhealthy: ["warning", "warn"],
  draining: ["down", "warn"],
  stopping: ["down", "warn"],
  restarting: ["waiting", "warn"],
  dead: ["bad", "off"],
  gone: ["gone", "off"],
  ended: ["gone", "off"],
  expired: ["gone", "off"],
  revoked: ["gone", "off"],
  info: ["info", "calm"],
  warn: ["warning", "warn"],
  error: ["bad", "bad"],
};
export const looks = (state: string): [IconName, Tone] => kStates[state] ?? ["alive", "off"];

// Order of states in a bar of trials.
export const kTrialStates = ["finished", "stopped", "running", "starting", "paused", "waiting", "unstarted", "interrupted", "failed"];
