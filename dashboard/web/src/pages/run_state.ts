// Reads the beginning of a run's state file. Pure.
export interface RunState {
  seed?: number | string;
  searcher?: string;
  scheduler?: string;
  started_ns?: number;
  space?: string;     // One line per parameter with its domain, or per option of a domain.
  stop?: string[];
  origin?: { arguments?: string[]; working_directory?: string; hostname?: string; git_commit?: string; git_branch?: string; git_changed?: boolean };
}

// Parses the fields before the trials, which may be many.
export function head_of_state(text: string): RunState | null {
  const at = text.search(/,\s*"trials"\s*:/);
  try {
    // Seeds have 64 bits; as text they keep all digits.
    return JSON.parse((at < 0 ? text : text.slice(0, at) + "}").replace(/("seed"\s*:\s*)(-?\d+)/, '$1"$2"')) as RunState;
  } catch {
    return null;
  }
}

export interface SpaceRow {
  name: string;
  domain: string;     // "loguniform(0.0001, 0.1)", "choice of 3", or a constant.
  options: string[];  // Options of a choice or grid.
  fixed: boolean;
}

// Parses "lr loguniform(0.0001, 0.1)", "act choice of 2", "act[0] \"relu\""; the options of a domain follow it.
export function space_rows(text: string): SpaceRow[] {
  const rows: SpaceRow[] = [];
  const kDomain = /^(.+?) ((?:q?(?:log)?(?:uniform|randint)|lograndint|q?randn|sample_from|choice|grid_search|grid)\b.*)$/;
  for (const line of text.split("\n").filter(Boolean)) {
    const last = rows[rows.length - 1];
    if (last && !last.fixed && line.startsWith(last.name + "[")) {
      const option = line.slice(last.name.length);
      const cut = option.indexOf("] ");
      // Parameters within an option have lines of their own, with their names.
      last.options.push(/^\[\d+\] /.test(option) ? option.slice(cut + 2) : option.slice(option.indexOf("]") + 1).replace(/^\./, ""));
      continue;
    }
    const domain = kDomain.exec(line);
    const cut = line.indexOf(" ");
    rows.push(domain ? { name: domain[1], domain: domain[2], options: [], fixed: false } : { name: line.slice(0, cut), domain: line.slice(cut + 1), options: [], fixed: true });
  }
  return rows;
}

// Parses a stop rule: a metric with its threshold, steps, or a time; other rules are kept as text.
export function stop_rule(text: string): { kind: "metric" | "steps" | "time" | "other"; metric?: string; value: number | string } {
  const steps = /^after (\d+) steps$/.exec(text);
  if (steps) return { kind: "steps", value: Number(steps[1]) };
  const time = /^after (\d+) ns$/.exec(text);
  if (time) return { kind: "time", value: Number(time[1]) / 1e6 };
  const metric = /^(.+) (-?[\d.]+(?:e[+-]?\d+)?)$/.exec(text);
  if (metric && !text.startsWith("condition ")) return { kind: "metric", metric: metric[1], value: Number(metric[2]) };
  return { kind: "other", value: text };
}
