// What a search will run, as the head's preview says it, in the form in which the page shows it. Pure.
export interface SearchPreview {
  searcher: string;
  unit: string;  // batches, records or epochs; empty: what the program counts.
  seed: number;
  trials: number;
  units: number;  // 0: the programs decide.
  rows: { trials: number; lengths: number[] }[];
  brackets: { rungs: number; trials: number; concurrent: number; lengths: number[] }[];
}

export interface PreviewBar {
  length: number;   // Trained in total; 0: the programs decide.
  trials: number;
  ways: number[][]; // Lengths at which they validate; several where trials skip a rung.
}

// Trials by the length to which they train, shortest first.
export function bars_of(preview: SearchPreview): PreviewBar[] {
  const by_length = new Map<number, PreviewBar>();
  for (const { trials, lengths } of preview.rows) {
    const length = lengths[lengths.length - 1] ?? 0;
    const bar = by_length.get(length) ?? { length, trials: 0, ways: [] };
    bar.trials += trials;
    bar.ways.push(lengths);
    by_length.set(length, bar);
  }
  return [...by_length.values()].sort((a, b) => a.length - b.length);
}

// Whether another seed gives another preview.
export const is_simulated = (preview: SearchPreview): boolean => preview.searcher === "adaptive_asha" || preview.searcher === "async_halving";
