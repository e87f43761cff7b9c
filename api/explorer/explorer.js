"use strict";

const maxMessages = 10; // of a stream that are shown

// Colours and token are those that were chosen in the web UI.
document.documentElement.dataset.theme = localStorage.getItem("conduit.theme") || "auto";
document.getElementById("token").value = sessionStorage.getItem("conduit.token") || "";

function element(name, properties = {}, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

const json = (value) => JSON.stringify(value, null, 2);
const token = () => document.getElementById("token").value.trim();

// resolve replaces references by the schemas they stand for, as deep as one reads.
function resolve(schema, root, depth = 0) {
  if (!schema || typeof schema !== "object" || depth > 12) return schema;
  if (Array.isArray(schema)) return schema.map((s) => resolve(s, root, depth + 1));
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return resolve(root.components.schemas[name], root, depth + 1);
  }
  return Object.fromEntries(Object.entries(schema).map(([k, v]) => [k, resolve(v, root, depth + 1)]));
}

function sample(content) {
  const media = Object.values(content)[0];
  return typeof media.example === "string" ? media.example : json(media.example);
}

function expected(operation, root) {
  const box = element("div");
  for (const [status, response] of Object.entries(operation.responses)) {
    if (status !== "200") continue;
    const schema = Object.values(response.content)[0].schema;
    const columns = element("div", { className: "columns" },
      element("div", {},
        element("h3", { textContent: "Expected response: " + status }),
        element("pre", { tabIndex: 0, textContent: sample(response.content) })));
    if (Object.keys(schema).length) {
      columns.append(element("div", {},
        element("h3", { textContent: "Its schema" }),
        element("pre", { tabIndex: 0, textContent: json(resolve(schema, root)) })));
    }
    box.append(columns);
  }
  const errors = Object.keys(operation.responses).filter((s) => s !== "200");
  if (errors.length) box.append(element("p", { textContent: "Errors: " + errors.join(", ") }));
  return box;
}

function address(path, operation, inputs) {
  const query = new URLSearchParams();
  for (const p of operation.parameters) {
    const value = inputs[p.in + p.name].value;
    if (p.in === "path") path = path.replace("{" + p.name + "}", encodeURIComponent(value).replaceAll("%3A", ":"));
    if (p.in === "query" && value !== "") query.append(p.name, value);
  }
  return path + (query.size ? "?" + query : "");
}

async function send(method, path, operation, inputs, body, out) {
  const headers = {};
  if (body !== null) headers["Content-Type"] = "application/json";
  if (token()) headers.Authorization = "Bearer " + token();
  for (const p of operation.parameters) {
    if (p.in === "header" && inputs["header" + p.name].value) headers[p.name] = inputs["header" + p.name].value;
  }
  out.textContent = "…";
  try {
    const response = await fetch(address(path, operation, inputs), { method, headers, body });
    const text = await response.text();
    let shown = text;
    try { shown = json(JSON.parse(text)); } catch { /* it is not JSON */ }
    const etag = response.headers.get("ETag");
    out.textContent = response.status + " " + response.statusText + (etag ? "\nETag: " + etag : "") + "\n\n" + shown;
  } catch (error) {
    out.textContent = String(error);
  }
}

// quoted returns text as one word of a shell.
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

// curl returns the request as a command. The token stands in it as a variable.
function curl(method, path, operation, inputs, body) {
  const url = new URL(address(path, operation, inputs), location.href);
  const words = ["curl"];
  if (operation["x-streaming"]) words.push("-N");
  else if (method !== "GET") words.push("-X", method);
  words.push(quoted(url.href));
  if (token()) words.push("-H", '"Authorization: Bearer $CONDUIT_API_TOKEN"');
  for (const p of operation.parameters) {
    const value = p.in === "header" && inputs["header" + p.name].value;
    if (value) words.push("-H", quoted(p.name + ": " + value));
  }
  if (body !== null) words.push("-H", quoted("Content-Type: application/json"), "-d", quoted(body));
  return words.join(" ");
}

// missing returns what an answer that is no upgrade says, which a WebSocket keeps from the page.
async function missing(path, operation, inputs) {
  const headers = token() ? { Authorization: "Bearer " + token() } : {};
  const abort = new AbortController();
  try {
    const response = await fetch(address(path, operation, inputs), { headers, signal: abort.signal });
    if (response.ok) return abort.abort(), "";
    const error = await response.json();
    return response.status + " " + error.message;
  } catch { return ""; }
}

function listen(path, operation, inputs, out) {
  const url = new URL(address(path, operation, inputs), location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const protocols = token() ? ["conduit", "bearer." + token()] : ["conduit"];
  const socket = new WebSocket(url, protocols);
  const messages = [];
  out.textContent = "connecting…";
  let opened = false;
  socket.onopen = () => { opened = true; out.textContent = "waiting for records…"; };
  socket.onmessage = (event) => {
    messages.unshift(json(JSON.parse(event.data)));
    messages.length = Math.min(messages.length, maxMessages);
    out.textContent = messages.join("\n");
  };
  socket.onclose = async (event) => {
    out.prepend("closed " + event.code + " " + event.reason + "\n");
    if (!opened) out.textContent = (await missing(path, operation, inputs)) || "The agent does not respond.";
  };
  return socket;
}

// offer has a field of an id propose those that there are, and holds the first unless it is changed.
async function offer(input, path, operation) {
  const kind = /^\/v1\/(pipelines|connectors|processors)\/\{id\}/.exec(path);
  if (!kind) return;
  const headers = token() ? { Authorization: "Bearer " + token() } : {};
  const response = await fetch("/v1/" + kind[1], { headers });
  if (!response.ok) return;
  const ids = (await response.json()).map((one) => one.id);
  const list = element("datalist", { id: operation.operationId + "-ids" },
    ...ids.map((id) => element("option", { value: id })));
  input.after(list);
  input.setAttribute("list", list.id);
  if (ids.length && input.value === input.defaultValue) input.value = ids[0];
}

function tryIt(method, path, operation) {
  const box = element("form");
  const inputs = {};
  for (const p of operation.parameters) {
    const input = element("input", {
      defaultValue: p.in === "path" ? p.example || "" : "", size: Math.max(24, (p.example || "").length + 2),
      required: p.required, placeholder: p.example || "", autocomplete: "off",
    });
    inputs[p.in + p.name] = input;
    if (p.in === "path" && p.name === "id") offer(input, path, operation).catch(() => {}); // the example stays
    box.append(element("label", { className: "parameter" },
      p.name + (p.required ? " *" : ""), input,
      element("span", { textContent: p.description || p.in })));
  }
  let body = null;
  if (operation.requestBody) {
    const text = sample(operation.requestBody.content);
    body = element("textarea", {
      value: text, rows: Math.min(16, text.split("\n").length + 1), spellcheck: false, ariaLabel: "Request body",
    });
    box.append(element("h3", { textContent: "Request body" }), body);
  }
  const out = element("pre", { tabIndex: 0, textContent: "Nothing was sent yet.", ariaLive: "polite" });
  const button = element("button", { className: "primary", textContent: "Try it" });
  const copy = element("button", { type: "button", className: "plain", textContent: "Copy as curl" });
  const sent = () => (body && body.value.trim() ? body.value : null);
  copy.onclick = async () => {
    const command = curl(method, path, operation, inputs, sent());
    try {
      await navigator.clipboard.writeText(command);
      out.textContent = "Copied:\n" + command;
    } catch { out.textContent = command; } // pages without TLS have no clipboard
  };
  box.append(element("p", {}, button, copy), element("h3", { textContent: "Response" }), out);
  let socket = null;
  box.onsubmit = (event) => {
    event.preventDefault();
    if (!operation["x-streaming"]) {
      if (method === "DELETE"
        && !confirm("DELETE " + address(path, operation, inputs) + "?\n\nThis cannot be taken back.")) return;
      send(method, path, operation, inputs, sent(), out);
      return;
    }
    if (socket && socket.readyState <= 1) {
      socket.close();
      return;
    }
    socket = listen(path, operation, inputs, out);
    socket.addEventListener("close", () => { button.textContent = "Try it"; });
    button.textContent = "Stop";
  };
  return box;
}

function show(method, path, operation, root) {
  const details = element("details", { className: "operation", id: operation.operationId },
    element("summary", {},
      element("span", { className: "method " + method.toLowerCase(), textContent: method }),
      element("span", { className: "path", textContent: path }),
      element("span", { className: "summary", textContent: operation.summary })));
  details.dataset.text = [method, path, operation.summary, operation.description].join(" ").toLowerCase();
  details.ontoggle = () => {
    if (!details.open || details.children.length > 1) return;
    const box = element("div");
    if (operation.description) box.append(element("p", { textContent: operation.description }));
    box.append(tryIt(method, path, operation), expected(operation, root));
    details.append(box);
  };
  return details;
}

async function main() {
  const root = await (await fetch("openapi.json")).json();
  const list = document.getElementById("operations");
  document.getElementById("version").textContent = root.info.version;
  list.textContent = "";
  for (const tag of root.tags) {
    const section = element("section", {}, element("h2", { textContent: tag.name }));
    for (const [path, methods] of Object.entries(root.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        if (operation.tags[0] === tag.name) section.append(show(method.toUpperCase(), path, operation, root));
      }
    }
    list.append(section);
  }
  document.getElementById("find").oninput = (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const d of document.querySelectorAll("details.operation")) d.hidden = !d.dataset.text.includes(wanted);
    for (const s of list.children) s.hidden = !s.querySelector("details:not([hidden])");
  };
}

main().catch((error) => { document.getElementById("operations").textContent = "Cannot load openapi.json: " + error; });
