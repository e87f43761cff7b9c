// What the page knows of the agent: requests, the stream of changes, and the signals they feed.

import { signal, computed } from './ui.js';

const tokenKey = 'conduit.token';

/** The token sent with each request. It is kept for the session of the browser tab only. */
export const token = signal(sessionStorage.getItem(tokenKey) || '');
/** connecting, live, lost or login */
export const link = signal('connecting');
/** Why the agent waits and no pipeline runs; '' when it does not. */
export const down = signal('');
export const session = signal({ role: 'admin' });
/** Status of each pipeline, by id. Replaced, never modified. */
export const pipelines = signal(new Map());
export const files = signal([]);
export const directory = signal(null);
/** Counts the messages of rates, of which one comes each second. */
export const tick = signal(0);
/** The rates of all pipelines together. */
export const total = signal({ records: 0, bytes: 0 });
/** Rates by pipeline: {records, bytes, lag, refused, stages}. Who shows one reads it by rate. */
export const rates = new Map();
const shownRates = new Map(); // signals by pipeline
const series = new Map(); // {points, at}: records/s of the last minutes, and how many came in all

/** The rates of a pipeline, or undefined when it does not run. */
export function rate(id) {
  let shown = shownRates.get(id);
  if (!shown) shownRates.set(id, shown = signal(rates.get(id)));
  return shown();
}

/** The records/s of the last minutes, the newest last; each value is the mean of so many seconds. */
export function points(id, seconds = 1) {
  const s = series.get(id);
  if (!s || seconds === 1) return s?.points;
  const means = [];
  // Groups begin at multiples of their length, so that only the last changes from second to second.
  for (let i = 0, n = s.at - s.points.length, sum = 0, of = 0; i < s.points.length; i++, n++) {
    sum += s.points[i]; of++;
    if (n % seconds === seconds - 1 || i === s.points.length - 1) { means.push(sum / of); sum = of = 0; }
  }
  return means;
}
export const events = signal([]);
export const toasts = signal([]);

export const mayWrite = computed(() => session().role === 'admin');

/** An answer that is not a success, as the agent words it. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body?.message || `the agent answered with ${status}`);
    this.status = status;
    const info = body?.details?.find((d) => d.reason);
    this.reason = info?.reason || '';
    this.suggestion = info?.metadata?.suggestion || '';
    this.violations = body?.details?.flatMap((d) => d.fieldViolations || []) || [];
  }
}

export function setToken(value) {
  token.set(value);
  if (value) sessionStorage.setItem(tokenKey, value); else sessionStorage.removeItem(tokenKey);
  reconnect();
}

function headers(more) {
  const all = { ...more };
  if (token.peek()) all.Authorization = 'Bearer ' + token.peek();
  return all;
}

/**
 * Performs a request, if the resource still has the ETag match. A body that is no text is sent as JSON. Returns
 * the answer, parsed with revive, and calls etag with the ETag that it has.
 */
export async function call(method, path, body, { type, signal: abort, revive, match, etag } = {}) {
  const options = { method, headers: headers({ Accept: 'application/json' }), signal: abort };
  if (body !== undefined) {
    options.headers['Content-Type'] = type || 'application/json';
    options.body = type ? body : JSON.stringify(body);
  }
  if (match) options.headers['If-Match'] = match;
  const answer = await fetch(path, options);
  etag?.(answer.headers.get('ETag'));
  const text = await answer.text();
  const json = (answer.headers.get('Content-Type') || '').includes('json');
  const parsed = json && text ? JSON.parse(text, revive) : text;
  if (answer.status === 401) link.set('login');
  if (!answer.ok) throw new Refusal(answer.status, json ? parsed : { message: text.slice(0, 300) });
  return parsed;
}

export const get = (path, options) => call('GET', path, undefined, options);
export const post = (path, body = {}, options) => call('POST', path, body, options);

/** The path of a pipeline in the API. */
export const pipelinePath = (id) => '/v1/pipelines/' + encodeURIComponent(id);

/** Shows a message for some seconds; one about an error stays until it is closed. */
export function toast(text, kind = 'good') {
  const item = { text, kind, id: Math.random() };
  toasts.update((all) => [...all.slice(-3), item]);
  if (kind !== 'bad') setTimeout(() => dismiss(item), 6000);
}

export const dismiss = (item) => toasts.update((all) => all.filter((t) => t !== item));

/** Runs an action of the user's and says how it went. */
export async function attempt(what, action) {
  try {
    const result = await action();
    if (what) toast(what);
    return result ?? true;
  } catch (e) {
    toast(e.message + (e.suggestion ? ': ' + e.suggestion : ''), 'bad');
    return undefined;
  }
}

/** Calls each(event, data) for the messages of a server-sent stream until it ends. */
async function readStream(body, each) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', name = '', data = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (data) each(name, JSON.parse(data));
        name = data = '';
      } else if (line.startsWith('event:')) name = line.slice(6).trim();
      else if (line.startsWith('data:')) data += line.slice(5);
    }
  }
}

const seriesLength = 180;
const eventsKept = 500;

const handlers = {
  session(s) { session.set(s); },
  statuses(m) {
    const next = m.all ? new Map() : new Map(pipelines.peek());
    for (const s of m.statuses || []) next.set(s.id, s);
    for (const id of m.gone || []) { next.delete(id); series.delete(id); shownRates.delete(id); }
    pipelines.set(next);
  },
  files(m) { files.set(m.files || []); directory.set(m.directory || null); },
  rates(m) {
    const sum = { records: 0, bytes: 0 }, gone = new Set(rates.keys());
    for (const r of m) {
      gone.delete(r.id);
      rates.set(r.id, r);
      sum.records += r.records; sum.bytes += r.bytes;
      let s = series.get(r.id);
      if (!s) series.set(r.id, s = { points: [], at: 0 });
      if (s.points.push(r.records) > seriesLength) s.points.shift();
      s.at++;
    }
    for (const id of gone) rates.delete(id);
    for (const [id, shown] of shownRates) shown.set(rates.get(id));
    total.set(sum);
    tick.update((n) => n + 1);
  },
  series(list) { for (const s of list) series.set(s.id, { points: s.series.slice(-seriesLength), at: seriesLength }); },
  events(list) {
    const known = new Set(events.peek().map((e) => e.id));
    const more = list.filter((e) => !known.has(e.id));
    if (more.length) events.update((all) => [...all, ...more].slice(-eventsKept));
  },
};

let abort = null;
let stages = '';

/** Has the rates of a pipeline come with those of its connectors and processors. */
export function watchStages(id) {
  if (stages === id) return;
  stages = id;
  delay = 0;
  abort?.abort();
  wake();
}

let delay = 500;

/** Follows the agent until the page ends, and comes back by itself when the agent does. */
export async function follow() {
  for (;;) {
    abort = new AbortController();
    try {
      const answer = await fetch('/v1/watch' + (stages ? '?stages=' + encodeURIComponent(stages) : ''),
        { headers: headers({ Accept: 'text/event-stream' }), signal: abort.signal });
      down.set(answer.status === 503 ? await reasonOf(answer) : '');
      if (answer.status === 401 || answer.status === 403) link.set('login');
      else if (answer.ok) {
        link.set('live');
        delay = 500;
        await readStream(answer.body, (name, data) => handlers[name]?.(data));
        link.set('lost');
      } else link.set('lost');
    } catch { if (link.peek() !== 'login' && delay) link.set('lost'); }
    await pause(link.peek() === 'login' ? Infinity : delay + Math.random() * delay);
    delay = Math.min(Math.max(delay, 500) * 1.6, 10000);
  }
}

/** What an agent that waits says, '' for any other answer. */
async function reasonOf(answer) {
  try {
    const refusal = new Refusal(answer.status, await answer.json());
    return refusal.reason === 'agent.store_unusable' ? refusal.message : '';
  } catch { return ''; }
}

let wake = () => {};
const pause = (ms) => new Promise((done) => { wake = done; if (ms < Infinity) setTimeout(done, ms); });

/** Reconnects at once. */
export function reconnect() {
  link.set('connecting');
  delay = 500;
  abort?.abort();
  wake();
}

/** A number in JSON that a double would change, as it is written. */
export class Digits {
  constructor(source) { this.source = source; }
  toJSON() { return JSON.rawJSON ? JSON.rawJSON(this.source) : Number(this.source); }
  toString() { return this.source; }
}

// What a double makes of 1.50, 1e3 and 100 is written in other words and is the same number.
const plainNumber = (text) => {
  const [, sign, digits, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text);
  const all = (digits + fraction).replace(/^0+/, ''), kept = all.replace(/0+$/, '');
  return kept ? `${sign}${kept}e${Number(exponent) - fraction.length + all.length - kept.length}` : '0';
};
const changed = (v, source) => !Number.isFinite(v) || plainNumber(String(v)) !== plainNumber(source);

/** A reviver for JSON.parse that keeps numbers with all their digits, where the browser gives the source text. */
export const exact = (_, v, context) =>
  (typeof v === 'number' && context?.source && changed(v, context.source) ? new Digits(context.source) : v);

/** Whether this browser keeps and writes numbers with all their digits. */
export const keepsDigits = !!JSON.rawJSON && JSON.parse('1e999', exact) instanceof Digits;

/** Opens the inspector of path. Returns a function that closes it. */
export function inspect(path, { message, closed }) {
  const url = new URL(path, location.href.replace(/^http/, 'ws'));
  const protocols = token.peek() ? ['conduit', 'bearer.' + token.peek()] : ['conduit'];
  const socket = new WebSocket(url, protocols);
  socket.onmessage = (m) => message(JSON.parse(m.data, exact));
  socket.onclose = (e) => closed(e);
  return () => {
    socket.onclose = socket.onmessage = null;
    // The console complains of a socket that is closed before it is open.
    if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close(); else socket.close();
  };
}
