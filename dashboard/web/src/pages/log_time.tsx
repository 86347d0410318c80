// Time of a log line.
import { full_time, log_time } from "../format";
import { locale } from "../i18n";
import { head_now } from "../live/use";

// Shown in the browser's time zone; the tooltip adds the zone and date.
export const LogTime = ({ ms }: { ms?: number }) =>
  ms ? <time class="log-time" dateTime={new Date(ms).toISOString()} onMouseEnter={(event) => { event.currentTarget.title = full_time(ms, locale()); }}>{log_time(ms, head_now(), locale())}</time> : <span class="log-time" />;
