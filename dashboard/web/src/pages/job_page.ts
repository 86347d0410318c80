// Opens the page of a server in a rank of a running job in a tab that is there already.
import { call } from "../api";

export async function open_job_page(tab: Window | null, job: string, port: number, rank: number): Promise<void> {
  const opened = await call<{ port: number; path: string }>("POST", `/api/v1/jobs/${encodeURIComponent(job)}/page`, { port, rank });
  if (!tab) return;
  tab.opener = null;
  tab.location.href = `${location.protocol}//${location.hostname}:${opened.port}${opened.path}`;
}
