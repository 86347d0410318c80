// What an actor measures itself (volador::metrics): counters with their rate, gauges, histograms as count and mean.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { number } from "../format";
import { locale, t } from "../i18n";
import { Card } from "../ui/parts";
import { label_text, per_second, summary, type Series } from "./actor_series";

const kEvery = 2000;  // ms; workers send them every second at most.

export function ActorMetrics({ id }: { id: string }) {
  const [seen, set_seen] = useState<{ at: number; series: Series[]; before?: { at: number; series: Series[] }; left_out: number } | null>(null);
  useEffect(() => {
    let gone = false;
    const load = () => {
      if (document.visibilityState === "hidden") return;
      call<{ series: Series[]; left_out: number }>("GET", `/api/v1/actors/${encodeURIComponent(id)}/metrics`).then(
        ({ series, left_out }) => !gone && set_seen((before) => ({ at: performance.now(), series, left_out: left_out ?? 0, before: before ? { at: before.at, series: before.series } : undefined })),
        () => undefined,  // It is forgotten, or the head is away, which the page says already.
      );
    };
    load();
    const timer = setInterval(load, kEvery);
    return () => { gone = true; clearInterval(timer); };
  }, [id]);
  if (!seen?.series.length) return null;
  const rate = (one: Series) => {
    const per = per_second(one, seen, seen.before);
    return per === null ? "" : t("actor.per_second", { n: number(per, locale()) });
  };
  return (
    <Card title={t("actor.metrics")}>
      <div class="compare">
        <table>
          <tbody>
            {seen.series.map((one) => (
              <tr key={one.name + label_text(one)}>
                <th scope="row" title={one.help || one.name}>{one.name}<small class="soft"> {label_text(one)}</small></th>
                <td class="num">{one.kind === "histogram" ? t("actor.histogram", summary(one, (value) => number(value, locale()))) : number(one.value, locale())}</td>
                <td class="num soft">{rate(one)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {seen.left_out > 0 && <p class="soft">{t("actor.left_out", { n: seen.left_out })}</p>}
    </Card>
  );
}
