// The login: a user's password or token, for a session cookie that no script can read.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { ask } from "../api.js";
import { Trouble } from "../parts.js";

// the broker's own sentence for that is about headers and frames
const WRONG = { true: "No user of this broker has that token.", false: "No user of this broker has that name and that password." };

export default function Login({ entered }) {
  const [values, setValues] = useState({ user: "", password: "", token: "" });
  const [isToken, setToken] = useState(false);
  const [state, setState] = useState({ isBusy: false, problem: undefined });
  const first = useRef(null);
  useEffect(() => first.current.querySelector("input").focus(), [isToken]);
  const logIn = async (event) => {
    event.preventDefault();
    setState({ isBusy: true, problem: undefined });
    try {
      await ask("POST", "/v1/session", isToken ? { token: values.token } : { user: values.user, password: values.password });
      setValues({ user: "", password: "", token: "" });
      setState({ isBusy: false, problem: undefined });
      entered();
    } catch (problem) {
      setState({ isBusy: false, problem: problem.status === 401 ? { message: WRONG[isToken] } : problem });
    }
  };
  const field = (name, label, type, autocomplete) => html`<label class="field">${label}
    <input name=${name} type=${type} value=${values[name]} required autocomplete=${autocomplete} onInput=${(event) => setValues({ ...values, [name]: event.target.value })} /></label>`;
  return html`<form ref=${first} class="login card" onSubmit=${logIn}>
    <h1>Log in</h1>
    ${isToken ? field("token", "Token", "password", "off") : html`${field("user", "User", "text", "username")}${field("password", "Password", "password", "current-password")}`}
    ${state.problem && html`<${Trouble} of=${state.problem} />`}
    <div class="buttons">
      <button type="button" class="plain" onClick=${() => setToken(!isToken)}>${isToken ? "With a password instead" : "With a token instead"}</button>
      <button class="primary" disabled=${state.isBusy}>Log in</button>
    </div>
  </form>`;
}
