// Actions with an optional confirmation and a notice of the result.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { Code, Dialog, failure } from "./parts";
import { toast } from "./toast";

// `run` awaits the action and shows the text that it returns or its error; resolves to true on success.
export function use_act(): { busy: boolean; run: (act: () => Promise<string>) => Promise<boolean> } {
  const [busy, set_busy] = useState(false);
  const run = async (act: () => Promise<string>) => {
    set_busy(true);
    try {
      toast(await act());
      return true;
    } catch (error) {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
      return false;
    } finally {
      set_busy(false);
    }
  };
  return { busy, run };
}

// `command`: the equivalent command of the terminal.
export const Confirm = ({ title, explain, command, act, danger, busy, on_act, on_close, children }: {
  title: string; explain: string; command?: string; act: string; danger?: boolean; busy?: boolean; on_act: () => void; on_close: () => void; children?: ComponentChildren;
}) => (
  <Dialog title={title} on_close={on_close}>
    <p>{explain}</p>
    {command && <Code text={command} />}
    {children}
    <footer>
      <button type="button" class="button" onClick={on_close}>{t("cancel")}</button>
      <button type="button" class={`button primary${danger ? " danger" : ""}`} disabled={busy} onClick={on_act}>{act}</button>
    </footer>
  </Dialog>
);
