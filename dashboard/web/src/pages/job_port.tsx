// The page of a server in a rank of a running job, such as a notebook: its port, and a tab that opens it.
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { use_act } from "../ui/confirm";
import { Amount } from "../ui/fields";
import { Code } from "../ui/parts";
import { open_job_page } from "./job_page";

const kServers = (port: string) => `jupyter lab --no-browser --port=${port}\ntensorboard --logdir=. --port=${port}`;

export function JobPort({ job, rank }: { job: string; rank: number }) {
  const [port, set_port] = useState("8888");
  const { busy, run } = use_act();
  const open = async () => {
    const tab = window.open("about:blank");  // Within the click: browsers block it later.
    const well = await run(async () => {
      await open_job_page(tab, job, Number(port), rank);
      return t("job.port.opened", { port });
    });
    if (!well) tab?.close();
  };
  return (
    <div class="job-port">
      <form class="pair" onSubmit={(event) => { event.preventDefault(); void open(); }}>
        <Amount label={t("job.port.port")} value={port} on_change={set_port} least={1} />
        <button type="submit" class="button primary" disabled={busy}>{t("job.port.open")}</button>
      </form>
      <p class="quiet-line">{t("job.port.start")}</p>
      <Code text={kServers(port)} />
      <p class="quiet-line">{t("job.port.forward")}</p>
      <Code text={`volador job forward ${job} ${port}${rank ? ` --rank=${rank}` : ""}`} />
    </div>
  );
}
