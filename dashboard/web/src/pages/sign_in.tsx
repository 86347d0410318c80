// Sign-in with user and password, by the provider of the cluster, or with a token; login links from the terminal need no form.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, ended, sign_in } from "../api";
import { t } from "../i18n";
import { Icon } from "../ui/icons";
import { Code, failure } from "../ui/parts";
import { Choices } from "../ui/shell";

export function SignIn() {
  const expired = new URLSearchParams(location.search).get("login") === "expired";
  const [user, set_user] = useState("");
  const [password, set_password] = useState("");
  const [token, set_token] = useState("");
  const [error, set_error] = useState<{ what: string; next: string } | null>(expired ? { what: t("signin.expired"), next: t("signin.expired.next") } : ended.value ? { what: t("signin.ended"), next: t("signin.ended.next") } : null);
  const [busy, set_busy] = useState(false);
  const [provider, set_provider] = useState("");
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = `${t("signin.title")} · Volador`;
    box.current?.focus();
    // Without an answer the other ways to sign in remain.
    call<{ label?: string }>("GET", "/api/v1/session/provider").then((answer) => set_provider(answer.label ?? ""), () => undefined);
  }, []);
  const enter = async (proof: Parameters<typeof sign_in>[0], refusal: { what: string; next: string }) => {
    set_busy(true);
    try {
      await sign_in(proof);
      if (location.search) history.replaceState(null, "", location.pathname + location.hash);
    } catch (problem) {
      const refused = problem instanceof ApiError && (problem.status === 401 || problem.status === 403);
      set_error(refused ? refusal : failure(problem));
      set_busy(false);
    }
  };
  const with_password = async (event: { preventDefault(): void }) => {
    event.preventDefault();
    if (!user.trim() || !password) return set_error({ what: t("signin.empty.password"), next: "" });
    await enter({ user: user.trim(), password }, { what: t("signin.refused.password"), next: t("signin.refused.password.next") });
  };
  const with_token = async (event: { preventDefault(): void }) => {
    event.preventDefault();
    const entered = token.trim();
    if (!entered) return set_error({ what: t("signin.empty"), next: "" });
    await enter({ token: entered }, { what: t("signin.refused"), next: t("signin.refused.next") });
  };
  const wrong = { "aria-invalid": error !== null, "aria-describedby": "sign-in-error" };
  return (
    <main class="sign-in">
      <div class="sign-in-box">
        <h1><img src="/assets/icon.svg" alt="" width="32" height="32" />Volador</h1>
        <h2>{t("signin.title")}</h2>
        <div id="sign-in-error" role="alert">{error && <p class="form-error"><Icon name="warning" /><span>{error.what} {error.next}</span></p>}</div>
        <form onSubmit={(event) => void with_password(event)}>
          <label>
            <span>{t("signin.user")}</span>
            <input ref={box} name="user" type="text" autocomplete="username" spellcheck={false} autocapitalize="none" value={user} {...wrong} onInput={(event) => set_user(event.currentTarget.value)} />
          </label>
          <label>
            <span>{t("signin.password")}</span>
            <input name="password" type="password" autocomplete="current-password" value={password} {...wrong} onInput={(event) => set_password(event.currentTarget.value)} />
          </label>
          <button type="submit" class="button primary" disabled={busy}>{t("signin.go")}</button>
        </form>
        {provider && (
          <>
            <p class="or">{t("signin.or")}</p>
            <a class="button" href={"/login/provider?next=" + encodeURIComponent("/" + location.hash)}>{t("signin.provider", { provider })}</a>
          </>
        )}
        <p class="or">{t("signin.or")}</p>
        <form onSubmit={(event) => void with_token(event)}>
          <label>
            <span>{t("signin.token")}</span>
            <input name="token" type="password" autocomplete="off" spellcheck={false} placeholder="vt1.…" value={token} {...wrong} onInput={(event) => set_token(event.currentTarget.value)} />
          </label>
          <button type="submit" class="button" disabled={busy}>{t("signin.go.token")}</button>
        </form>
        <p class="or">{t("signin.or")}</p>
        <p>{t("signin.link")}</p>
        <Code text="volador dashboard" />
        <Choices />
      </div>
    </main>
  );
}
