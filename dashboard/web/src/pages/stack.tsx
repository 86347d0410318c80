// Stack traces of an actor's threads, read on request.
import { useState } from "preact/hooks";
import { call } from "../api";
import { t } from "../i18n";
import { Card, Failed, failure } from "../ui/parts";

interface Stack {
  threads: { thread: number | string; name: string; state: string; runs: string; frames: string[]; note: string }[];
}

export function StackCard({ id }: { id: string }) {
  const [answer, set_answer] = useState<{ text?: string; error?: unknown }>({});
  const [busy, set_busy] = useState(false);
  const read = async () => {
    set_busy(true);
    try {
      set_answer({ text: text_of(await call<Stack>("GET", `/api/v1/actors/${encodeURIComponent(id)}/stack`)) });
    } catch (error) {
      set_answer({ error });
    }
    set_busy(false);
  };
  return (
    <Card title={t("actor.stack")} action={<button type="button" class="button small" disabled={busy} onClick={() => void read()}>{t(answer.text ? "actor.stack.again" : "actor.stack.take")}</button>}>
      {answer.error ? <Failed {...failure(answer.error)} /> : answer.text ? <pre class="words stack-text" tabIndex={0}>{answer.text}</pre> : <p class="quiet-line">{t("actor.stack.what")}</p>}
    </Card>
  );
}

// Formats a stack like `volador stack`: each thread with what it runs, then its frames.
const text_of = (stack: Stack): string =>
  stack.threads.map((one) => [[`${one.name || one.thread}`, one.state, one.runs, one.note].filter(Boolean).join(" · "), ...one.frames.map((frame, i) => `  ${String(i).padStart(2)}  ${frame}`)].join("\n")).join("\n\n");
