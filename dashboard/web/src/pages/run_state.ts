// The beginning of a run's state file. Pure.
export interface RunState {
  seed?: number | string;
  searcher?: string;
  scheduler?: string;
  started_ns?: number;
  space?: unknown;
  stop?: unknown;
  resources?: unknown;
  origin?: { arguments?: string[]; working_directory?: string; hostname?: string; git_commit?: string; git_branch?: string; git_changed?: boolean };
}

// The state file begins with what is asked here; its trials, which may be many, are not read.
export function head_of_state(text: string): RunState | null {
  const at = text.search(/,\s*"trials"\s*:/);
  try {
    // Seeds are 64 bits: as text, they keep their digits.
    return JSON.parse((at < 0 ? text : text.slice(0, at) + "}").replace(/("seed"\s*:\s*)(-?\d+)/, '$1"$2"')) as RunState;
  } catch {
    return null;
  }
}
