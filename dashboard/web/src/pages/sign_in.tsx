// Sign-in with a token; login links from the terminal need no form.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ended, sign_in } from "../api";
import { t } from "../i18n";
import { Icon } from "../ui/icons";
import { Code, failure } from "../ui/parts";
import { Choices } from "../ui/shell";

export function SignIn() {
  const expired = new URLSearchParams(location.search).get("login") === "expired";
  const [token, set_token] = useState("");
  const [error, set_error] = useState<{ what: string; next: string } | null>(expired ? { what: t("signin.expired"), next: t("signin.expired.next") } : ended.value ? { what: t("signin.ended"), next: t("signin.ended.next") } : null);
  const [busy, set_busy] = useState(false);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = `${t("signin.title")} · Volador`;
    box.current?.focus();
  }, []);
  const submit = async (event: { preventDefault(): void }) => {
    event.preventDefault();
    const entered = token.trim();
    if (!entered) return set_error({ what: t("signin.empty"), next: "" });
    set_busy(true);
    try {
      await sign_in(entered);
      if (location.search) history.replaceState(null, "", location.pathname + location.hash);
    } catch (problem) {
      const refused = problem instanceof ApiError && (problem.status === 401 || problem.status === 403);
      set_error(refused ? { what: t("signin.refused"), next: t("signin.refused.next") } : failure(problem));
      set_busy(false);
    }
  };
  return (
    <main class="sign-in">
      <div class="sign-in-box">
        <h1><img src="/assets/icon.svg" alt="" width="32" height="32" />Volador</h1>
        <h2>{t("signin.title")}</h2>
        <p>{t("signin.link")}</p>
        <Code text="volador dashboard" />
        <p class="or">{t("signin.or")}</p>
        <form onSubmit={(event) => void submit(event)}>
          <label>
            <span>{t("signin.token")}</span>
            <input ref={box} name="token" type="password" autocomplete="current-password" spellcheck={false} placeholder="vt1.…" value={token} aria-invalid={error !== null} aria-describedby="sign-in-error"
              onInput={(event) => set_token(event.currentTarget.value)} />
          </label>
          <div id="sign-in-error" role="alert">{error && <p class="form-error"><Icon name="warning" /><span>{error.what} {error.next}</span></p>}</div>
          <button type="submit" class="button primary" disabled={busy}>{t("signin.go")}</button>
        </form>
        <Choices />
      </div>
    </main>
  );
}
