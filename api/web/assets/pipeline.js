// One pipeline: how records flow, the records themselves, what is declared, its history, its dead letters.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { bytes, clock, count, duration, place, plural, severity, version } from './format.js';
import { action, ask, empty, long, phase, problem, question, questionDialog, sparkline, tabs, when } from './parts.js';
import { graph, route, topology } from './graph.js';
import { inspector } from './inspector.js';
import { declaration } from './editor.js';
import { dryRun } from './dryrun.js';
import { why } from './fleet.js';
import { deadLetters } from './deadletters.js';
import { position } from './position.js';
import { logs } from './logs.js';
import { trends } from './trend.js';

const detail = signal(null); // {id, key, connectors, processors, dlq, yaml}
const history = signal(null);
const compared = signal(null);
const chosen = signal('');
let loading = '';

/** Loads what the stream of changes does not have, again after each change of the declaration. */
function load(s) {
  const key = `${s.id} ${s.generation} ${s.owner.kind} ${s.digest}`;
  if (loading === key || s.withdrawn) return; // what is being deleted answers no more
  loading = key;
  const id = encodeURIComponent(s.id), path = agent.pipelinePath(s.id);
  if (detail.peek()?.id !== s.id) { detail.set(null); compared.set(null); chosen.set(''); }
  Promise.all([
    agent.get('/v1/pipelines/' + id), agent.get('/v1/connectors?pipelineId=' + id), agent.get('/v1/processors'),
    agent.get(path + '/dead-letter-queue'), exported(s.id), agent.get(path + '/history'),
  ])
    .then(([pipeline, connectors, processors, dlq, yaml, revisions]) => {
      if (loading !== key) return;
      const byID = new Map(processors.map((p) => [p.id, p]));
      const inOrder = [pipeline, ...connectors].flatMap((parent) =>
        parent.processorIds.map((id) => byID.get(id)).filter(Boolean));
      detail.set({ id: s.id, pipeline, connectors, processors: inOrder, dlq, yaml });
      history.set(revisions.reverse());
    })
    .catch((e) => { loading = ''; if (e.status !== 404) agent.toast(e.message, 'bad'); });
}

const exported = (id, revision) =>
  agent.call('POST', agent.pipelinePath(id) + '/export' + (revision ? `?revision=${revision}` : ''), {})
    .catch(() => '');

export function pipeline(id, tab = '') {
  const s = agent.pipelines().get(id);
  if (!s) {
    return agent.link() === 'live'
      ? empty(`There is no pipeline ${id}`, h('p', null, 'It may have been deleted, or its file may not be saved yet.'),
        h('a', { href: '#/', class: 'button' }, 'All pipelines'))
      : h('p', { class: 'quiet' }, 'Loading…');
  }
  load(s);
  queueMicrotask(() => agent.watchStages(id));
  const base = '#/pipelines/' + encodeURIComponent(id);
  return h('div', { class: 'pipeline', key: id },
    h(heading, { s }),
    tabs(base,
      [
        ['', 'Overview'], ['records', 'Records'], ['dry-run', 'Dry run'], ['declaration', 'Declaration'],
        ['history', 'History'], ['dead-letters', 'Dead letters'], ['logs', 'Log'],
      ],
      tab),
    tab === '' ? overview(s)
      : tab === 'records' ? records(s)
      : tab === 'dry-run' ? dryRun(s, detail())
      : tab === 'declaration' ? declaration(s, detail())
      : tab === 'history' ? revisions(s) : tab === 'logs' ? logs(s.id) : deadLetterTab(s),
    questionDialog());
}

function heading({ s }) {
  agent.tick(); // for the time in this phase
  const d = detail(), began = s.placement?.since || s.state.since,
    active = ['running', 'starting', 'recovering'].includes(s.state.phase);
  const path = agent.pipelinePath(s.id);
  const act = (verb, done) => () => agent.attempt(done, () => agent.post(`${path}/${verb}?wait=30s`));
  return h('div', { class: 'title' },
    h('div', null,
      h('a', { href: '#/', class: 'quiet' }, 'Pipelines'),
      h('h1', null, d?.pipeline.config.name && d.pipeline.config.name !== s.id ? d.pipeline.config.name : s.id),
      h('p', { class: 'quiet' },
        phase(s), ' for ',
        h('time', { datetime: began, title: began }, duration((Date.now() - Date.parse(began)) / 1000)),
        ' · ', version(s), terms(s.terms), instances(s.instances), ' · declared in ',
        s.owner.kind === 'file'
          ? h('a', { class: 'mono', href: '#/files/' + encodeURIComponent(s.owner.path) }, place(s.owner))
          : 'API')),
    h('span', { class: 'grow' }),
    active
      ? action('Stop', 'run', act('stop', 'stopped')) // one button, which keeps the focus
      : action('Start', 'run', act('start', 'started'), { kind: 'primary' }),
    s.state.phase === 'stopping'
      ? action('Stop now', 'force',
        () => agent.attempt('stopped; records in flight are delivered again', () =>
          agent.post(path + '/stop', { force: true })),
        { kind: 'danger' })
      : null,
    action('Restart', 'restart', act('restart', 'restarted'), { disabled: !active }),
    s.owner.kind === 'api' ? action('Delete', 'delete', () => drop(s), { kind: 'danger' }) : null);
}

/** How the pipeline takes part in a cluster; nothing for an agent that is alone. */
function terms(t) {
  if (!t) return null;
  const needs = Object.entries(t.labels || {}).map(([k, v]) => `${k}=${v}`).join(', ');
  return h('span', {
    class: 'terms',
    title: [t.reason && 'because ' + t.reason, ...(t.onHost || []).map((one) => 'on the disk of the host: ' + one)]
      .filter(Boolean)
      .join('\n'),
  },
    ` · ${t.mode} in the cluster`,
    needs ? `, on members with ${needs}` : '');
}

/** Which members run the instances of a pipeline that is to have several; nothing for one that has one. */
function instances(i) {
  if (!i) return null;
  const on = i.running.map((one) => `${one.instance} on ${one.member}`).join(', ');
  return h('span', { class: 'instances', title: i.message || '' },
    on ? ` · ${i.running.length} of ${i.declared} instances: ${on}` : ` · ${i.declared} instances declared`);
}

async function drop(s) {
  const d = detail.peek();
  if (!await ask({
    title: `Delete ${s.id}?`, text: 'The pipeline is stopped, its connectors clean up, and its positions are deleted.',
    yes: 'Delete', danger: true,
  })) return;
  const done = await agent.attempt(`${s.id} is deleted`, async () => {
    await agent.post(agent.pipelinePath(s.id) + '/stop?wait=1m').catch((e) => {
      if (e.reason !== 'pipeline.not_running') throw e;
    });
    for (const p of d.processors) await agent.call('DELETE', '/v1/processors/' + encodeURIComponent(p.id));
    for (const c of d.connectors) await agent.call('DELETE', '/v1/connectors/' + encodeURIComponent(c.id));
    await agent.call('DELETE', agent.pipelinePath(s.id));
  });
  if (done) location.hash = '#/';
}

function overview(s) {
  const d = detail(), r = agent.rate(s.id), e = why(s);
  const rate = (id) => r?.stages?.[id];
  const pick = (id) => { chosen.set(chosen.peek() === id ? '' : id); };
  return h('div', { class: 'stack' },
    e && severity(s)
      ? h('div', { class: 'problem ' + (severity(s) > 3 ? 'bad' : 'warn'), role: 'alert' },
        h('pre', { class: 'wrap' }, e),
        s.state.retryAt && s.state.phase === 'recovering'
          ? h('p', { class: 'quiet' },
            `Next attempt at ${clock(s.state.retryAt)}, after ${plural(s.state.failures || 1, 'failure')}. `
              + 'Saving or restarting tries at once.')
          : null)
      : null,
    (s.problems || []).map((p, i) => h('div', { key: i }, problem(p))),
    figures(s, r),
    h(stages, { s, r }),
    d
      ? graph(topology({ ...d, refused: r?.refused }, rate), { pick, chosen: chosen() })
      : h('p', { class: 'quiet graph-space' }, 'Loading…'),
    d && chosen() ? stageCard(d, chosen(), rate(chosen()), s) : null,
    d ? connectors(d, rate) : null, trends(s.id),
    h('div', { class: 'columns' }, conditions(s), h(recent, { s })));
}

function figures(s, r) {
  const figure = (label, value, extra) =>
    h('div', { class: 'figure' }, h('span', { class: 'quiet' }, label), h('b', null, value), extra);
  return h('div', { class: 'figures card' },
    figure('Records/s', r ? `${count(r.records)} in, ${count(r.delivered)} out` : '–',
      sparkline(agent.points(s.id), { width: 180, height: 34, label: 'records per second over the last minutes' })),
    figure('Bytes/s', r ? bytes(r.bytes) : '–'),
    figure('Ack lag', r?.lag === undefined ? '–' : duration(r.lag)),
    figure('Refused', r ? count(r.refused || 0) : '–'));
}

/** What passes through each source and each destination now. */
function connectors(d, rate) {
  const id = (c) => c.id.slice(c.pipelineId.length + 1),
    cell = (v, say = count) => h('td', { class: 'num' }, v === undefined ? '–' : say(v));
  return h('section', { class: 'card' },
    h('h2', { id: 'ends' }, 'Sources and destinations'),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-labelledby': 'ends' },
      h('table', { class: 'ends' },
        h('thead', null,
          h('tr', null,
            ['Connector', 'Kind', 'Records/s', 'Bytes/s', 'Refused/s', 'Outstanding', 'Behind'].map((t, i) =>
              h('th', { key: t, scope: 'col', class: i > 1 && i < 6 ? 'num' : '' }, t)))),
        h('tbody', null,
          [...d.connectors].sort((a, b) => b.type.localeCompare(a.type)).map((c) => {
            const r = rate(c.id), source = c.type === 'TYPE_SOURCE';
            return h('tr', { key: c.id },
              h('th', { scope: 'row', class: 'mono' }, id(c)),
              h('td', { class: 'quiet' }, `${source ? 'source' : 'destination'}, ${c.plugin}`),
              cell(r && (source ? r.in : r.out)),
              cell(r?.bytes, bytes),
              cell(r && !source ? r.refused || 0 : undefined),
              cell(r && (r.outstanding || 0)),
              h('td', null, r?.behind ? behind(r.behind) : r?.backlog?.text || '–',
                r?.backlog?.error ? h('div', { class: 'problem warn' }, r.backlog.error) : null));
          })))));
}

/** The stages that hold records or report errors while the pipeline delivers nothing: what each does and since when. */
function stages({ s, r }) {
  if (!s.state.stall || !r?.stages) return null;
  agent.tick();
  const list = Object.entries(r.stages).filter(([id, x]) => x.since || x.error || id === s.state.stall.stage);
  if (!list.length) return null;
  return h('section', { class: 'card', 'aria-label': 'Stages that wait' },
    h('h2', null, 'Stages that are stuck'),
    h('ul', { class: 'events' },
      list.map(([id, x]) =>
        h('li', { key: id, class: id === s.state.stall.stage ? 'warning' : '' },
          h('b', null, id.slice(s.id.length + 1) || id),
          ' ', stageWords(x),
          x.error ? long(x.error, { class: 'quiet' }) : null))));
}

const stageWords = (x) => [
  x.doing, x.outstanding ? plural(x.outstanding, 'record') + ' outstanding' : '',
  x.since ? `nothing since ${clock(x.since)}` : '', x.errors ? plural(x.errors, 'error') : '',
].filter(Boolean).join(' · ');

function stageCard(d, id, r, s) {
  const c = d.connectors.find((x) => x.id === id) || d.processors.find((x) => x.id === id);
  if (!c) return null;
  const processor = !!c.parent;
  return h('section', { class: 'card', 'aria-label': id },
    h('div', { class: 'title' },
      h('h2', null, id), h('span', { class: 'grow' }),
      h('a', { class: 'button', href: `#/pipelines/${encodeURIComponent(s.id)}/records` }, 'Show records')),
    h('dl', { class: 'facts' },
      fact('Plugin', h('code', null, c.plugin)),
      processor ? (c.condition ? fact('Condition', h('code', null, c.condition)) : null)
        : route(c) ? fact('Gets records', h('code', null, route(c))) : null,
      r?.waiting ? fact('Delivery', h('span', { class: 'problem warn' }, r.waiting)) : null,
      r?.since ? fact('No record passed since', when(r.since)) : null,
      r?.outstanding ? fact('Outstanding', count(r.outstanding)) : null,
      r?.rawLane ? fact('Raw lane', r.rawLane) : null,
      r?.error ? fact('Last error', h('span', { class: 'problem warn' }, r.error)) : null,
      c.config.isolate ? fact('Isolated', limits(c.config.isolate)) : null,
      r?.backlog ? fact('Log', r.backlog.text) : null,
      r?.backlog?.error ? fact('Failing', h('span', { class: 'problem warn' }, r.backlog.error)) : null,
      r?.behind ? fact('Behind', behind(r.behind)) : null,
      r?.behind?.warning ? fact('Warning', h('span', { class: 'problem warn' }, r.behind.warning)) : null,
      [...(r?.behind?.notes || []), ...(r?.notes || [])].map((x) => fact('Note', x)),
      (r?.behind?.skipped || []).map((x) =>
        fact('Skipped', h('span', { class: 'problem warn' }, `${x.of}: ${x.error}`))),
      r ? fact('Now', now(r, c, processor)) : null,
      Object.entries(c.config.settings).sort().map(([k, v]) => fact(k, h('code', { class: 'wrap' }, v)))),
    !processor && c.type === 'TYPE_SOURCE' ? h(position, { s, id }) : null);
}

function now(r, c, processor) {
  const rates = `${count(r.records)} records/s${processor ? '' : `, ${bytes(r.bytes)}/s`}`;
  return rates + use(r, c) + (r.slow ? `: ${r.slow}` : '');
}

/**
 * How much of the time a stage works. A source has no such figure: its call also waits for records, and the agent
 * cannot tell waiting from working.
 */
function use(r, c) {
  if (c.type === 'TYPE_SOURCE') return r.records ? '' : ', waits for records';
  return `, busy ${Math.round(r.busy * 100)} % of the time`;
}

/** What isolates a destination. */
const limits = (x) =>
  `at most ${bytes(x.bytes)}${x.age ? `, ${x.age}` : ''}, then ${x.full || 'block'}`;

/** How far a source is behind its system, in the units that it reports. */
function behind(b) {
  const parts = (b.snapshots || []).map((x) => {
    const rate = (x.rows - (x.resumed || 0)) / ((Date.now() - Date.parse(x.startedAt)) / 1000);
    const left = x.total && rate > 0 ? `, ${duration(Math.max(0, x.total - x.rows) / rate)} left` : '';
    if (!x.total) return `${x.of}: ${count(x.rows)} rows`;
    const percent = Math.min(100, Math.round(100 * x.rows / x.total));
    return `${x.of}: ${percent} % (${count(x.rows)} of ${count(x.total)} rows${left})`;
  });
  if (b.bytes !== undefined) parts.push(bytes(b.bytes));
  if (b.records !== undefined) {
    const each = (b.parts || []).map((x, i) => `${i ? ', ' : ' ('}${x.of}: ${count(x.records)}`).join('');
    parts.push(`${count(b.records)} records${each}${b.parts ? ')' : ''}`);
  }
  if (b.seconds !== undefined) parts.push(duration(b.seconds));
  return parts.join(', ') || '–';
}

const fact = (name, value) => [h('dt', null, name), h('dd', null, value)];

function conditions(s) {
  return h('section', { class: 'card' },
    h('h2', null, 'Conditions'),
    h('ul', { class: 'conditions' },
      s.conditions.map((c) => {
        const wanted = ['Valid', 'Applied', 'Ready', 'Delivering'].includes(c.type),
          good = (c.status === 'True') === wanted;
        return h('li', { key: c.type },
          h('span', { class: 'phase ' + (good ? (wanted ? 'good' : 'off') : 'warn') },
            h('span', { class: 'mark', 'aria-hidden': 'true' }),
            c.type),
          h('span', { class: 'quiet prose' },
            good
              ? (wanted ? 'yes' : 'no')
              : (c.status === 'True' ? 'yes' : 'no')
                + (c.message ? ': ' + c.message : c.reason ? ': ' + c.reason : '')));
      })));
}

function recent({ s }) {
  const list = agent.events().filter((e) => e.pipeline === s.id).slice(-8).reverse();
  return h('section', { class: 'card' },
    h('h2', null, 'Events'),
    list.length
      ? h('ul', { class: 'events' },
        list.map((e) => h('li', { key: e.id, class: e.type },
          when(e.at, { class: 'quiet' }), ' ', h('b', null, e.reason), ' ', long(e.message))))
      : h('p', { class: 'quiet' }, 'There are no events.'));
}

function records(s) {
  const d = detail();
  if (!d) return h('p', { class: 'quiet' }, 'Loading…');
  const id = (x) => x.id.slice(s.id.length + 1) || x.id, enc = encodeURIComponent, stages = [];
  const processors = (parent) => d.processors.filter((p) => p.parent.id === parent).forEach((p) =>
    stages.push(
      { label: `before ${id(p)}`, path: `/v1/processors/${enc(p.id)}/inspect-in` }, {
        label: `after ${id(p)}`, path: `/v1/processors/${enc(p.id)}/inspect-out`,
      }));
  for (const c of d.connectors.filter((x) => x.type === 'TYPE_SOURCE')) {
    stages.push({ label: `source ${id(c)}`, path: `/v1/connectors/${enc(c.id)}/inspect` });
    processors(c.id);
  }
  processors(s.id);
  for (const c of d.connectors.filter((x) => x.type !== 'TYPE_SOURCE')) {
    if (d.processors.some((p) => p.parent.id === c.id))
      stages.push({ label: `to ${id(c)}`, path: `/v1/connectors/${enc(c.id)}/inspect-in` });
    processors(c.id);
    stages.push({ label: `destination ${id(c)}`, path: `/v1/connectors/${enc(c.id)}/inspect` });
  }
  return inspector(stages, s.state.phase === 'running');
}

function revisions(s) {
  const list = history();
  if (!list) return h('p', { class: 'quiet' }, 'Loading…');
  if (!list.length) return empty('No history yet');
  return h('div', { class: 'columns wide-right' },
    h('ol', { class: 'history card' },
      list.map((r, i) => h('li', { key: r.number, class: compared()?.number === r.number ? 'chosen' : '' },
        h('button', { class: 'plain', onclick: () => compare(s, r, list[i + 1]) },
          h('b', null, `version ${r.generation}`),
          ' ',
          h('span', { class: 'quiet' }, `revision ${r.number} · ${r.action}`),
          r.generation === s.state.runningGeneration ? h('span', { class: 'badge good' }, 'runs') : null,
          h('br'),
          h('small', { class: 'quiet' }, `${r.origin} · `, when(r.at))),
        r.spec && r.number !== list[0].number && !s.withdrawn
          ? action(s.owner.kind === 'api' ? 'Roll back to this' : 'Write this to the file', 'rollback' + r.number,
            () => rollback(s, r))
          : null))),
    h('section', { class: 'card', 'aria-live': 'polite' },
      compared()
        ? comparison(compared())
        : h('p', { class: 'quiet' }, 'Choose a revision to see its changes and content.')));
}

async function compare(s, r, before) {
  const text = r.spec ? await exported(s.id, r.number) : '';
  if (!before)
    return compared.set({
      number: r.number, title: `Revision ${r.number} is the first that is kept.`, changes: [], text,
    });
  const from = before.spec || {}, to = r.spec || {};
  compared.set({ number: r.number, title: `What revision ${r.number} changed`, changes: fields(from, to), text });
}

/** The fields in which two declarations differ. */
function fields(a, b) {
  const flat = (p) => {
    const out = new Map(),
      walk = (v, at) => {
        if (v && typeof v === 'object')
          Object.entries(v).forEach(([k, x]) => walk(x, at ? `${at}.${Array.isArray(v) ? x?.id ?? k : k}` : k));
          else out.set(at, v);
      };
    walk(p, '');
    return out;
  };
  const x = flat(a), y = flat(b);
  return [...new Set([...x.keys(), ...y.keys()])].filter((k) => x.get(k) !== y.get(k)).map((k) =>
    ({ path: k, from: x.get(k), to: y.get(k) }));
}

function comparison(c) {
  return [h('h2', null, c.title),
    c.changes.length
      ? h('div', { class: 'scroll', tabindex: 0 },
        h('table', { class: 'diff' },
          h('thead', null,
            h('tr', null,
              h('th', { scope: 'col' }, 'Field'),
              h('th', { scope: 'col' }, 'Before'),
              h('th', { scope: 'col' }, 'After'))),
          h('tbody', null,
            c.changes.map((d) => h('tr', { key: d.path },
              h('th', { scope: 'row', class: 'mono' }, d.path),
              h('td', { class: 'removed' }, d.from === undefined ? '' : String(d.from)),
              h('td', { class: 'added' }, d.to === undefined ? '' : String(d.to)))))))
      : h('p', { class: 'quiet' }, 'No change that affects the running pipeline.'),
    c.text ? [h('h3', null, 'Declaration'), h('pre', { class: 'scroll', tabindex: 0 }, c.text)] : null];
}

async function rollback(s, r) {
  const now = history.peek()[0].spec || {};
  const file = s.owner.kind === 'file';
  if (!await ask({
    title: file ? `Write revision ${r.number} to ${s.owner.path}?` : `Roll back to revision ${r.number}?`,
    body: comparison({ title: 'What this changes', changes: fields(now, r.spec) }),
    yes: file ? 'Write' : 'Roll back',
  })) return;
  await agent.attempt(`rolled back to revision ${r.number}`, () => agent.post(agent.pipelinePath(s.id)
    + '/rollback?live',
    file ? { revision: r.number, file: true } : { revision: r.number }));
}

function deadLetterTab(s) {
  const d = detail();
  if (!d) return h('p', { class: 'quiet' }, 'Loading…');
  const r = agent.rate(s.id), q = d.dlq;
  return h('div', { class: 'stack' },
    deadLetters(s),
    h('section', { class: 'card' },
      h('h2', null, 'Dead-letter queue'),
      h('p', null,
        `Dead letters go to ${q.plugin}. `,
        Number(q.windowSize) === 0 ? 'Any number of refusals is tolerated.'
          : Number(q.windowNackThreshold) === 0 ? 'The first refusal stops the pipeline.'
          : `More than ${q.windowNackThreshold} refusals among ${q.windowSize} records stop the pipeline.`),
      h('dl', { class: 'facts' },
        fact('Dead letters since start', r ? count(r.refused || 0) : '–'),
        Object.entries(q.settings).map(([k, v]) => fact(k, h('code', null, v)))),
      agent.events().some((e) => e.pipeline === s.id && e.reason === 'Failed')
        ? h('p', { class: 'quiet' }, 'Its events show why the last refusal stopped the pipeline.')
        : null));
}

addEventListener('keydown', (e) => {
  const page = document.querySelector('.pipeline');
  if (!page || e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.('input, textarea, select, dialog')) return;
  const tab = page.querySelectorAll('nav.tabs a')[Number(e.key) - 1];
  if (tab) { tab.click(); e.preventDefault(); }
  if (e.key === 'Escape' && !question.peek()) location.hash = '#/';
});
