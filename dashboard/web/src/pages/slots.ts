// Assigns trials to slots of their nodes, in order of their start. Pure.
export interface Run {
  id: string;
  node: string;
  from: number;   // Unix ms
  to: number;     // Unix ms; now for a running trial.
}

// Puts each run into the first slot of its node that is free at its start. Nodes are sorted by name.
export function slots_of<T extends Run>(runs: T[]): { node: string; slot: number; runs: T[] }[] {
  const by_node = new Map<string, T[]>();
  for (const run of runs) by_node.set(run.node, [...(by_node.get(run.node) ?? []), run]);
  const rows: { node: string; slot: number; runs: T[] }[] = [];
  for (const node of [...by_node.keys()].sort()) {
    const slots: T[][] = [];
    for (const run of by_node.get(node)!.sort((a, b) => a.from - b.from)) {
      const free = slots.find((slot) => slot[slot.length - 1].to <= run.from + 50);
      if (free) free.push(run);
      else slots.push([run]);
    }
    slots.forEach((slot, i) => rows.push({ node, slot: i, runs: slot }));
  }
  return rows;
}
