// Rows of the list of jobs, with the jobs of a batch in one row. Pure.
import type { Job } from "./job_rows";

export interface JobRow {
  id: string;
  batch: string;  // Name of the batch; "": a single job.
  job: Job;       // The newest job of a batch.
  jobs: Job[];
}

// Jobs in their order; a batch stands in the place of its first job. `apart`: each job in a row of its own.
export function rows_of(jobs: Job[], apart: boolean): JobRow[] {
  const rows: JobRow[] = [];
  const batches = new Map<string, JobRow>();
  for (const job of jobs) {
    const batch = apart ? "" : job.spec.batch;
    const known = batch ? batches.get(batch) : undefined;
    if (known) {
      known.jobs.push(job);
      continue;
    }
    const row = { id: batch ? "batch " + batch : job.id, batch, job, jobs: [job] };
    if (batch) batches.set(batch, row);
    rows.push(row);
  }
  return rows;
}

// Order in a bar and in a text.
const kOrder = ["running", "stopping", "queued", "succeeded", "failed", "expired", "stopped"];
// Numbers of jobs by state, in this order, without zeros.
export function counts_of(jobs: Job[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const job of jobs) {
    const state = job.stopping ? "stopping" : job.state;
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return kOrder.filter((state) => counts.has(state)).map((state) => [state, counts.get(state)!]);
}

export type Priority = "very_urgent" | "urgent" | "normal";
export const kUrgency: Priority[] = ["very_urgent", "urgent", "normal"];
// Queued jobs by priority, each in the order of the queue.
export function by_priority(jobs: Job[]): Record<Priority, Job[]> {
  const out: Record<Priority, Job[]> = { very_urgent: [], urgent: [], normal: [] };
  for (const job of [...jobs].sort((a, b) => a.position - b.position)) out[(job.spec.priority as Priority) in out ? (job.spec.priority as Priority) : "normal"].push(job);
  return out;
}
