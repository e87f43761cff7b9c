// Where a source resumes, and moving that while its pipeline is stopped.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { asText, fromBase64 } from './format.js';
import { action, ask } from './parts.js';

const shown = signal(null); // the position, with its ETag, and when it was that
const draft = signal('');
let loading = '';

const base64 = 'base64 '; // before a position that is no text
const path = (id, more = '') => `/v1/connectors/${encodeURIComponent(id)}/position` + more;
const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));
const words = (p) => {
  const text = asText(fromBase64(p));
  return text === null || /\p{Cc}/u.test(text) ? base64 + p : text;
};
const bare = (plugin) => plugin.replace(/^(builtin|standalone|any):/, '').replace(/@.*/, '');

/** Loads the position of a source, again when its pipeline starts or has stopped. */
function load(id, when) {
  const key = `${id} ${when}`;
  if (loading === key) return;
  loading = key;
  if (shown.peek()?.connectorId !== id) { shown.set(null); draft.set(''); }
  let etag = '';
  agent.get(path(id), { etag: (tag) => { etag = tag; } }).then(
    (p) => { if (loading === key) shown.set({ ...p, etag, when }); },
    (e) => { if (e.status !== 404) agent.toast(e.message, 'bad'); }); // it is gone
}

async function move(p, to, when) {
  const move = await agent.attempt('', () => agent.get(path(p.connectorId, '?to=' + encodeURIComponent(to))));
  if (!move) return;
  const title = to ? `Move ${p.connectorId}?` : `Start ${p.connectorId} from the beginning?`;
  const yes = to ? 'Move it' : 'Forget the position';
  if (!await ask({ title, text: move.consequence, yes, danger: true })) return;
  const options = { match: p.etag };
  await agent.attempt(to ? 'the position was moved' : 'the position was forgotten', () =>
    (to
      ? agent.call('PUT', path(p.connectorId), { position: to }, options)
      : agent.call('DELETE', path(p.connectorId), undefined, options)));
  loading = ''; draft.set('');
  shown.set({ ...shown.peek(), when: '' });
  load(p.connectorId, when);
}

/** The part of a source's card that is about its position. */
export function position({ s, id }) {
  const on = s.placement?.member, stopped = s.state.phase === 'stopped' && !on,
    when = stopped ? s.state.since : 'runs' + (on || '');
  load(id, when);
  const p = shown(), typed = draft();
  if (!p || p.connectorId !== id) return null;
  const submit = (e) => {
    e.preventDefault();
    move(p, typed.startsWith(base64) ? typed.slice(base64.length) : toBase64(new TextEncoder().encode(typed)), when);
  };
  return h('form', { class: 'stack', 'aria-label': 'Position', onsubmit: submit },
    h('h3', null,
      stopped ? 'The source resumes from'
        : on ? `When the page was opened, or ${on} took over the pipeline, all records were settled up to`
        : 'When the page was opened, or the pipeline started, all records were settled up to'),
    h('p', null, p.position ? h('code', { class: 'wrap' }, words(p.position)) : 'the beginning: there is no position'),
    p.savedBy && bare(p.savedBy) !== bare(p.plugin)
      ? h('p', { class: 'quiet' }, `Saved by the plugin ${p.savedBy}; another plugin starts from the beginning.`)
      : null,
    !agent.mayWrite() || p.when !== when ? null
      : !stopped ? h('p', { class: 'quiet' }, 'To change the position, stop the pipeline.')
      : [
        h('label', { for: 'position' },
          'New position, in the format shown above; the plugin reads it when the pipeline starts'),
        h('input', {
          id: 'position', class: 'wide', autocomplete: 'off', spellcheck: 'false', value: typed,
          oninput: (e) => draft.set(e.target.value),
        }),
        h('div', { class: 'actions' },
          h('button', { class: 'primary', disabled: !typed }, 'Resume from this position…'),
          p.position
            ? action('Start from the beginning…', 'reset-position', () => move(p, '', when), { kind: 'danger' })
            : null)]);
}
