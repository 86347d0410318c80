// Applies resources in the form of Kubernetes and Katib: an editor whose text the head checks while it is written. Loaded when it is opened.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, call } from "../api";
import { go } from "../router";
import { narrow } from "../prefs";
import { Text } from "../ui/fields";
import { use_loaded } from "../ui/loaded";
import { Card, Code, Loading, failure } from "../ui/parts";
import { toast } from "../ui/toast";
import { ConfigEditor } from "./config_editor";
import { findings_of, span_of, type Finding } from "./config_findings";
import { FileButton, FindingList, random_id, Sides } from "./config_parts";
import "./configured.css";
import type { Configured } from "./configured";
import { a } from "./katib_apply_texts";
import kFirst from "./katib_first.yaml?raw";
import { applied_yaml, type Resource } from "./katib_resource";

const kPause = 400;  // In ms after the last keystroke.
const kLook = 300;
const kLooks = 20;   // The experiment of a new resource exists a moment after the resource.
const kFile = "resources.yaml";

interface Applied { kind: string; namespace: string; name: string; action: string }
interface Checked { of: string; findings: Finding[]; resources: Applied[]; other: string }

const request_of = (yaml: string, namespace: string) => ({ yaml, file_name: kFile, ...(namespace.trim() ? { namespace: namespace.trim() } : {}) });

function use_checked(yaml: string, namespace: string): { checked: Checked | null } {
  const [checked, set_checked] = useState<Checked | null>(null);
  const of = JSON.stringify([yaml, namespace]);
  useEffect(() => {
    let gone = false;
    const say = (next: Partial<Checked>) => { if (!gone) set_checked({ of, findings: [], resources: [], other: "", ...next }); };
    const timer = setTimeout(() => {
      call<{ resources: Applied[]; warnings: string[] }>("POST", "/api/v1/katib/resources", { ...request_of(yaml, namespace), dry_run: true }).then(
        (reply) => say({ resources: reply.resources, findings: reply.warnings.flatMap((one) => findings_of(one, false)) }),
        (error: unknown) => {
          // An algorithm that is not registered, or whose service does not answer, has a place in the text too.
          const placed = error instanceof ApiError ? findings_of(error.detail, true) : [];
          const is_placed = (error instanceof ApiError && error.code === "kInvalidArgument") || placed.some((one) => one.line > 0);
          say(is_placed ? { findings: placed } : { other: failure(error).what });
        });
    }, kPause);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [of]);
  return { checked: checked?.of === of ? checked : null };
}

// The page of the experiment that runs the resource; null: there is none yet.
async function run_of({ namespace, name }: Applied): Promise<string | null> {
  const wanted = new URLSearchParams({ kind: "Experiment", namespace, name });
  for (let i = 0; i < kLooks; ++i) {
    const { rows } = await call<{ rows: (Resource & { experiment: number })[] }>("GET", `/api/v1/katib/resources?${wanted}`);
    const id = rows[0]?.experiment;
    if (id) return (await call<Configured>("GET", `/api/v1/determined/experiments/${id}`)).run;
    await new Promise((wake) => setTimeout(wake, kLook));
  }
  return null;
}

// `of`: "<namespace>/<name>" of the resource to edit; empty: a new one.
export function KatibApply({ of }: { of: string }) {
  const [text, set_text] = useState(of ? "" : kFirst);
  const [namespace, set_namespace] = useState(of.split("/")[0]);
  const [target, set_target] = useState<{ offset: number } | null>(null);
  const [busy, set_busy] = useState(false);
  const [side, set_side] = useState<"form" | "text">("form");
  const typed = useRef(false);
  useEffect(() => {
    if (!of) return;
    const [space, name] = of.split("/");
    const wanted = new URLSearchParams({ kind: "Experiment", namespace: space, name });
    call<{ rows: Resource[] }>("GET", `/api/v1/katib/resources?${wanted}`).then(({ rows }) => { if (rows[0] && !typed.current) set_text(applied_yaml(rows[0].object)); }, (error: unknown) => toast(failure(error).what, "bad"));
  }, [of]);
  const change = (next: string) => {
    typed.current = true;
    set_text(next);
  };
  const { checked } = use_checked(text, namespace);
  const findings = useMemo(() => (checked ? checked.findings.filter((one) => one.file === kFile) : []), [checked]);
  const bad = checked !== null && (checked.other !== "" || checked.findings.some((one) => one.bad));
  const show = (one: Finding) => {
    const span = span_of(text, one);
    if (!span) return;
    set_side("text");
    set_target({ offset: span[0] });
  };
  const apply = async () => {
    set_busy(true);
    try {
      const { resources } = await call<{ resources: Applied[] }>("POST", "/api/v1/katib/resources", { ...request_of(text, namespace), request_id: random_id() });
      toast(a("done", { n: resources.length }));
      const experiment = resources.find((one) => one.kind === "Experiment");
      const run = experiment && await run_of(experiment);
      if (run) go(["experiments", run], { tab: "katib" });
      else go([experiment ? "experiments" : "jobs"]);
    } catch (error) {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
    } finally {
      set_busy(false);
    }
  };
  const both = !narrow.value;
  const view = use_loaded(() => Promise.all([import("./katib_form"), import("./katib_template")]).then(([{ KatibForm }, { template }]) => ({ KatibForm, template })));
  return (
    <>
      {!both && <Sides side={side} set={set_side} />}
      <div class="config-sides katib-apply">
        {(both || side === "form") && (
          <div class="stack">
            {view ? <view.KatibForm text={text} set={change} findings={checked?.findings ?? []} namespace={namespace} template={view.template} /> : <Loading />}
          </div>
        )}
        {(both || side === "text") && (
          <section class="card config-text" aria-label={a("text")}>
            <header><h2>{a("text")}</h2><FileButton text={a("open")} on_text={change} /></header>
            <ConfigEditor text={text} on_change={change} findings={findings} go_to={target} label={a("text")} />
            <FindingList findings={checked?.findings ?? []} file={kFile} show={show} />
          </section>
        )}
        <div class="stack katib-result">
          <Card title={a("result")}>
            {!checked ? <p class="quiet-line">{a("checking")}</p> : checked.other ? <p class="tone-bad">{checked.other}</p> : bad ? <Count findings={checked.findings} /> : (
              <>
                <ul class="plain-list">{checked.resources.map((one) => <li key={one.kind + one.namespace + one.name}>{a(`action.${one.action as "created"}`, { kind: one.kind, name: `${one.namespace}/${one.name}` })}</li>)}</ul>
                {!checked.resources.length && <p class="quiet-line">{a("nothing")}</p>}
                <Count findings={checked.findings} />
              </>
            )}
          </Card>
          <Card>
            <Text label={a("namespace")} value={namespace} hint="default" on_change={set_namespace} />
            <p class="quiet-line katib-part">{a("about")}</p>
            <p class="quiet-line katib-part">{a("terminal")}</p>
            <Code text={`volador apply -f ${kFile}${namespace.trim() ? ` -n ${namespace.trim()}` : ""}`} />
          </Card>
        </div>
      </div>
      <footer class="config-acts">
        <span class={`prediction${bad ? " tone-bad" : ""}`} role="status">{verdict(checked)}</span>
        <button type="button" class="button primary" disabled={busy || !checked || bad || !checked.resources.length} onClick={() => void apply()}>{a("apply")}</button>
      </footer>
    </>
  );
}

function Count({ findings }: { findings: Finding[] }) {
  const text = numbers(findings);
  return text ? <p class="quiet-line">{text}</p> : null;
}

function numbers(findings: Finding[]): string {
  const bad = findings.filter((one) => one.bad).length;
  const mild = findings.length - bad;
  return [bad > 0 && a("errors", { n: bad }), mild > 0 && a("warnings", { n: mild })].filter(Boolean).join(", ");
}

function verdict(checked: Checked | null): string {
  if (!checked) return a("checking");
  const [first, ...more] = checked.resources;
  const does = first && a(`action.${first.action as "created"}`, { kind: first.kind, name: first.name }) + (more.length ? ` (+${more.length})` : "");
  return checked.other || [does, numbers(checked.findings)].filter(Boolean).join(" · ") || a("nothing");
}
