// The button that opens the form of jobs. The form is loaded when it is opened first.
import { useState } from "preact/hooks";
import { may } from "../api";
import { t } from "../i18n";
import { failure } from "../ui/parts";
import { toast } from "../ui/toast";
import type { SubmitForm } from "./submit_form";

export function Submit({ on_done }: { on_done: () => void }) {
  const [Form, set_form] = useState<typeof SubmitForm | null>(null);
  if (!may("user")) return null;
  const open = () => void import("./submit_form").then(
    (loaded) => set_form(() => loaded.SubmitForm),
    (error: unknown) => {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
    });
  return (
    <>
      <button type="button" class="button primary" onClick={open}>{t("job.submit")}</button>
      {Form && <Form on_close={() => set_form(null)} on_done={on_done} />}
    </>
  );
}
