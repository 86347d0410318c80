// An actor's own metrics (volador::metrics): counters as rates, gauges, histograms as count and mean, with their history since the page was opened.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { number } from "../format";
import { locale, t } from "../i18n";
import { Card } from "../ui/parts";
import { label_text, past_with, per_second, summary, type Series } from "./actor_series";

const kEvery = 2000;  // ms; workers report at most once a second.

export function ActorMetrics({ id }: { id: string }) {
  const [seen, set_seen] = useState<{ at: number; series: Series[]; before?: { at: number; series: Series[] }; past: Record<string, number[]>; left_out: number } | null>(null);
  useEffect(() => {
    let gone = false;
    const load = () => {
      if (document.visibilityState === "hidden") return;
      call<{ series: Series[]; left_out: number }>("GET", `/api/v1/actors/${encodeURIComponent(id)}/metrics`).then(
        ({ series, left_out }) => !gone && set_seen((last) => {
          const [now, before] = [{ at: performance.now(), series }, last ? { at: last.at, series: last.series } : undefined];
          return { ...now, before, past: past_with(last?.past ?? {}, now, before), left_out: left_out ?? 0 };
        }),
        () => undefined,  // The actor is gone or the head is unreachable; the page already shows both.
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
                <td class="spark-cell"><Spark of={seen.past[one.name + label_text(one)] ?? []} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {seen.left_out > 0 && <p class="soft">{t("actor.left_out", { n: seen.left_out })}</p>}
    </Card>
  );
}

// A sparkline without axes.
function Spark({ of }: { of: number[] }) {
  if (of.length < 2) return null;
  const [low, high] = [Math.min(...of), Math.max(...of)];
  const points = of.map((value, i) => `${((116 * i) / (of.length - 1) + 2).toFixed(1)},${(high === low ? 11 : 20 - (18 * (value - low)) / (high - low)).toFixed(1)}`).join(" ");
  return <svg class="spark" width="120" height="22" role="img" aria-label={t("actor.spark", { low: number(low, locale()), high: number(high, locale()) })}><title>{t("actor.spark", { low: number(low, locale()), high: number(high, locale()) })}</title><polyline points={points} /></svg>;
}
