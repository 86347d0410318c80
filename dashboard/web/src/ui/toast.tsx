// Short notices of results and errors; they disappear after a while, and errors stay longer.
import { signal } from "@preact/signals";
import { t } from "../i18n";
import { Icon } from "./icons";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
}
const toasts = signal<Toast[]>([]);
let next_id = 1;

export function toast(text: string, tone: Toast["tone"] = "good"): void {
  const one = { id: next_id++, text, tone };
  toasts.value = [...toasts.value.slice(-3), one];
  setTimeout(() => dismiss(one.id), tone === "bad" ? 12_000 : 4_000);
}
const dismiss = (id: number) => {
  toasts.value = toasts.value.filter((one) => one.id !== id);
};

export const Toasts = () => (
  <div class="toasts" role="status">
    {toasts.value.map((one) => (
      <div key={one.id} class={`toast tone-${one.tone}`}>
        <Icon name={one.tone === "bad" ? "warning" : "check"} />
        <span>{one.text}</span>
        <button type="button" class="icon-button" onClick={() => dismiss(one.id)} aria-label={t("close")}><Icon name="close" /></button>
      </div>
    ))}
  </div>
);
