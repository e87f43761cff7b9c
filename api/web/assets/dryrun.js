// A dry run: what the processors of a pipeline make of the last records, or of records that are written by hand.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { readableRecord } from './format.js';
import { empty } from './parts.js';
import { tree } from './inspector.js';

const records = signal('');
const result = signal(null);
const state = signal('');
let of = '';

const wanted = 5;

/** Takes records from the stream of a source. */
function take(source) {
  const got = [];
  state.set('waiting for records…');
  const close = agent.inspect(`/v1/connectors/${encodeURIComponent(source)}/inspect?rate=${wanted}`, {
    message(m) {
      if (!m.result) return;
      got.push(JSON.stringify(readableRecord(m.result)));
      records.set(got.join('\n'));
      state.set(`${got.length} of ${wanted}`);
      if (got.length === wanted) { close(); state.set(''); }
    },
    closed() { state.set('the stream ended'); },
  });
  setTimeout(() => {
    close();
    if (got.length < wanted) state.set(got.length ? '' : 'no record arrived within ten seconds');
  }, 10000);
}

async function run(s, detail) {
  const lines = records.peek().split('\n').filter((l) => l.trim());
  const done = await agent.attempt('', () => agent.post('/v1/dry-run',
    { file: detail.yaml, pipeline: s.id, source: detail.source, records: lines.map((l) => JSON.parse(l, agent.exact)) },
    { revive: agent.exact }));
  if (done) result.set(done);
}

/** The tab of a pipeline. */
export function dryRun(s, detail) {
  if (!detail) return h('p', { class: 'quiet' }, 'Loading…');
  if (of !== s.id) { of = s.id; queueMicrotask(() => { records.set(''); result.set(null); state.set(''); }); }
  const sources = detail.connectors.filter((c) => c.type === 'TYPE_SOURCE');
  if (!detail.processors.length)
    return empty('No processors',
      h('p', null, 'A dry run shows the effect of the processors of a pipeline on records. This pipeline has none.'));
  if (!agent.mayWrite())
    return empty('This token may only read',
      h('p', null, 'A dry run runs processors, which requires the admin token.'));
  return h('div', { class: 'stack' },
    h('div', { class: 'bar' },
      sources.map((c) => h('button', { key: c.id, onclick: () => take(c.id), disabled: s.state.phase !== 'running' },
        `Take ${wanted} records from ${c.id.slice(s.id.length + 1)}`)),
      h('span', { class: 'quiet', role: 'status' }, state()),
      h('span', { class: 'grow' }),
      h('button', {
        class: 'primary', disabled: !records().trim(),
        onclick: () =>
          run(s, { ...detail, source: sources.length > 1 ? sources[0].id.slice(s.id.length + 1) : undefined }),
      }, 'Run the processors')),
    h('label', { for: 'records-in' }, 'Records, one JSON a line'),
    h('textarea', {
      class: 'lines', id: 'records-in', rows: 6, spellcheck: 'false', wrap: 'off',
      placeholder: '{"payload":{"after":{"id":1}}}', value: records(), oninput: (e) => records.set(e.target.value),
    }),
    h('p', { class: 'quiet' }, 'No destination is opened, and nothing is acknowledged.'),
    result() ? outcome(result()) : null);
}

function outcome(r) {
  return [r.records.map((one) => h('article', { class: 'card record', key: one.number },
    h('h2', null, one.number ? `Record ${one.number}` : 'By time, after the last record'),
    one.steps.length
      ? one.steps.map((step) => h('section', { key: step.processor },
        h('h3', { class: 'mono' }, step.processor),
        step.diff.length
          ? h('pre', { class: 'steps', tabindex: 0 },
            step.diff.map((d, i) =>
              h('span', { key: i, class: d.startsWith('+') ? 'added' : d.startsWith('-') ? 'removed' : '' }, d + '\n')))
          : h('p', { class: 'quiet' }, step.records.length ? 'Nothing changed.' : 'No record leaves this processor.')))
      : h('p', { class: 'quiet' }, 'No processor received it.'))),
    Object.entries(r.destinations).map(([id, list]) => h('section', { class: 'card', key: id },
      h('h2', null, `${id} would receive ${list.length}${r.isolated?.includes(id) ? ', through its log' : ''}`),
      list.slice(0, 20).map((x, i) => h('div', { class: 'tree', key: i }, h('dd', null, tree(x)))))),
    r.deadLetters.map((d, i) => h('div', { class: 'problem bad', key: 'd' + i },
      h('b', { class: 'mono' }, d.processor),
      ' refuses it: ', d.error))];
}
