// Calls to the head. Each failure is an ApiError with the next step for the user.
import { signal } from "@preact/signals";
import type { Why } from "./i18n/reason";

export interface Session {
  role: string;
  user?: string;  // Who signed in with a password, or whose token it is.
  cluster: string;
  version: string;
  expires_ms?: number;
  view?: string;  // Path of the results on disk; set when the page shows results without a cluster.
}

export class ApiError extends Error {
  constructor(
    readonly status: number,  // 0: no answer arrived.
    readonly code: string,
    readonly detail: string,
    readonly next: string,
  ) {
    super(detail);
  }
}

export const session = signal<Session | null | undefined>(undefined);  // undefined: not loaded yet. null: signed out.

// Set when the session ended without a sign-out: it expired, or its token was revoked.
export const ended = signal(false);
function end_session(): void {
  if (session.value) ended.value = true;
  session.value = null;
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: { "X-Volador-Request": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, "kUnavailable", "", "");
  }
  const text = await answer.text();
  let parsed: Record<string, unknown> = {};
  try {
    parsed = text ? JSON.parse(text) : {};
  } catch {
    // Not JSON, for example the error page of a proxy.
  }
  if (answer.ok) return parsed as T;
  if (answer.status === 401 && path !== "/api/v1/session") end_session();
  const field = (name: string) => (typeof parsed[name] === "string" ? (parsed[name] as string) : "");
  throw new ApiError(answer.status, field("code"), field("detail") || field("title"), field("next"));
}

export async function load_session(): Promise<void> {
  try {
    session.value = await call<Session>("GET", "/api/v1/session");
  } catch (error) {
    if ((error as ApiError).status === 401) end_session();
    else throw error;
  }
}
export async function sign_in(proof: { token: string } | { user: string; password: string }): Promise<void> {
  session.value = await call<Session>("POST", "/api/v1/session", proof);
  ended.value = false;
}
export async function sign_out(): Promise<void> {
  await call("DELETE", "/api/v1/session");
  session.value = null;
}

const kRoles = ["viewer", "user", "operator"];
export const may = (role: string) => kRoles.indexOf(session.value?.role ?? "") >= kRoles.indexOf(role);

export const explain = (id: string) => call<{ text: string; why?: (Why | null)[] }>("GET", "/api/v1/explain?id=" + encodeURIComponent(id));
