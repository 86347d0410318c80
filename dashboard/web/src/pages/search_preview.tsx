// How many trials the search of a configuration will run and for how long, while the configuration is written. Loaded with the form.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { Card, count, failure } from "../ui/parts";
import { p } from "./search_preview_texts";
import { bars_of, is_simulated, type SearchPreview } from "./search_rows";

interface Found { preview: SearchPreview | null; problem: string }

// The preview of the last valid configuration, and whether it is that of this one. `config`: null: it is not valid, or not known to be.
function use_preview(config: string | null, template: string, seed: number): { found: Found | null; is_fresh: boolean } {
  const [found, set_found] = useState<(Found & { of: string }) | null>(null);
  const of = JSON.stringify([config, template, seed]);
  useEffect(() => {
    if (config === null) return undefined;
    let gone = false;
    const say = (next: Found) => { if (!gone) set_found({ ...next, of }); };
    const body = { config, config_name: "config.yaml", seed, ...(template.trim() ? { config_template: template, template_name: "template.yaml" } : {}) };
    call<{ preview: SearchPreview }>("POST", "/api/v1/determined/experiments:preview", body).then((reply) => say({ preview: reply.preview, problem: "" }), (error: unknown) => say({ preview: null, problem: failure(error).what }));
    return () => { gone = true; };
  }, [of]);
  return { found, is_fresh: found?.of === of };
}

export function PreviewCard({ config, template }: { config: string | null; template: string }) {
  const [seed, set_seed] = useState(0);
  const { found, is_fresh } = use_preview(config, template, seed);
  const preview = found?.preview;
  return (
    <Card title={p("title")} label={p("title")} action={preview && is_simulated(preview) && <button type="button" class="button small" disabled={!is_fresh} onClick={() => set_seed(seed + 1)}>{p("again")}</button>}>
      {!found ? <p class="quiet-line">{p("waits")}</p> : !preview ? <p class="quiet-line">{found.problem}</p> : <div class={`search-preview${is_fresh ? "" : " soft"}`} aria-busy={!is_fresh}><Shown of={preview} /></div>}
    </Card>
  );
}

const unit_of = ({ unit }: SearchPreview) => (unit === "batches" || unit === "records" || unit === "epochs" ? p(`unit.${unit}`) : p("unit.none"));

function Shown({ of }: { of: SearchPreview }) {
  const unit = unit_of(of);
  const bars = bars_of(of);
  const most = Math.max(...bars.map((bar) => bar.trials));
  return (
    <>
      <p class="big"><b class="num">{p("trials", { n: of.trials })}</b><span>{of.units > 0 ? p("total", { units: count(of.units), unit }) : p("open")}</span></p>
      <ul class="preview-bars" aria-label={p("bars")}>
        {bars.map((bar) => (
          <li key={bar.length} title={bar.ways.filter((way) => way.length > 0).map((way) => p("ways", { lengths: way.map(count).join(", ") })).join("\n") || undefined}>
            <span class="num">{bar.length > 0 ? p("length", { length: count(bar.length), unit }) : p("length.none")}</span>
            <i><i style={{ width: `${(100 * bar.trials) / most}%` }} /></i>
            <b class="num">{count(bar.trials)}</b>
          </li>
        ))}
      </ul>
      {of.brackets.length > 0 && (
        <div class="preview-brackets">
          <table>
            <thead><tr><th scope="col">{p("bracket")}</th><th scope="col">{p("col.trials")}</th><th scope="col">{p("at_once")}</th><th scope="col">{p("rungs", { unit })}</th></tr></thead>
            <tbody>{of.brackets.map((bracket, i) => <tr key={i}><th scope="row" class="num">{i + 1}</th><td class="num">{count(bracket.trials)}</td><td class="num">{count(Math.min(bracket.concurrent, bracket.trials))}</td><td class="num">{bracket.lengths.map(count).join(" → ")}</td></tr>)}</tbody>
          </table>
        </div>
      )}
      {is_simulated(of) && <p class="quiet-line">{p("seed", { seed: of.seed })}</p>}
    </>
  );
}
