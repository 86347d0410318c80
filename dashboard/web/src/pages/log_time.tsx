// When a line of a log was written.
import { full_time, log_time } from "../format";
import { locale } from "../i18n";
import { head_now } from "../live/use";

// In the reader's zone; its title names the zone and the day.
export const LogTime = ({ ms }: { ms?: number }) =>
  ms ? <time class="log-time" dateTime={new Date(ms).toISOString()} onMouseEnter={(event) => { event.currentTarget.title = full_time(ms, locale()); }}>{log_time(ms, head_now(), locale())}</time> : <span class="log-time" />;
