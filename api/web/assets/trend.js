// The trend of a pipeline over the last 15 minutes, hour or day, as charts and as a table.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { bytes, clock, count, duration } from './format.js';
import { empty, when } from './parts.js';

const windows = [['15m', '15 minutes'], ['1h', '1 hour'], ['24h', '24 hours']];
const last = signal('15m');
const trend = signal(null);
const failed = signal('');
const opened = signal(false); // the table
const pointed = signal(-1); // the step under the pointer
let self = null; // the view that is on the page

/** Gets the values when the view comes, and again as long as it is there. */
async function follow(id, view) {
  while (self === view) {
    const of = last.peek();
    try {
      const got = await agent.get(`${agent.pipelinePath(id)}/trend?last=${of}`);
      if (self === view && of === last.peek()) { trend.set(got); failed.set(''); }
    } catch (e) { if (self === view) failed.set(e.message); }
    await new Promise((done) => { view.again = done; setTimeout(done, 10_000); });
  }
}

function choose(name) {
  last.set(name);
  trend.set(null);
  self?.again?.();
}

export function trends(id) {
  const comes = (el) => {
    self = null;
    trend.set(null);
    pointed.set(-1);
    opened.set(false);
    if (el) follow(id, self = {});
  };
  return h('section', { class: 'card trends', key: 'trend', 'aria-label': 'Over time', ref: comes },
    h('div', { class: 'title' },
      h('h2', null, 'Over the last'),
      h('div', { class: 'segments', role: 'group', 'aria-label': 'Time' }, windows.map(([name, label]) =>
        h('button', { key: name, 'aria-pressed': String(last() === name), onclick: () => choose(name) }, label)))),
    failed() ? h('p', { class: 'bad' }, failed()) : null,
    h(charts, { id }));
}

const known = (values) => values.filter((v) => v !== null);

function charts({ id }) {
  const t = trend();
  if (!t) return h('p', { class: 'quiet' }, 'Loading…');
  if (!known(t.records).length)
    return empty('Nothing measured yet',
      h('p', null, 'The first values come within 20 seconds after the pipeline has started.'));
  const short = (x) => x.slice(id.length + 1) || x;
  const ends = Object.entries(t.destinations).sort();
  const sum = known(t.refused).reduce((a, b) => a + b, 0);
  return h('div', null,
    h('div', { class: 'charts' },
      h(chart, {
        key: 'records', t, title: 'Records/s', say: count,
        series: [['read', t.records], ...ends.map(([x, v]) => ['to ' + short(x), v])],
      }),
      h(chart, { key: 'bytes', t, title: 'Bytes/s', say: bytes, series: [['read', t.bytes]] }),
      h(chart, { key: 'latency', t, title: 'Latency, mean', say: duration, series: [['latency', t.latency]] }),
      h(chart, {
        key: 'lag', t, title: 'Lag: age of the oldest unacknowledged record', say: duration, series: [['lag', t.lag]],
      }),
      t.behind
        ? h(chart, {
          key: 'behind', t, title: 'Records behind the system of the source', say: count,
          series: [['behind', t.behind]],
        })
        : null,
      h(chart, {
        key: 'refused', t, title: `Refused: ${count(sum)}`, say: count, bars: true, series: [['refused', t.refused]],
      })),
    h('details', { ontoggle: (e) => opened.set(e.target.open) },
      h('summary', null, 'The same as a table'),
      opened() ? h(table, { t, ends, short }) : null));
}

const width = 400, height = 96, top = 8;
const stepTime = (t, i) => new Date(Date.parse(t.from) + i * t.step * 1000).toISOString();

function chart({ t, title, say, series, bars }) {
  const most = Math.max(...series.flatMap(([, v]) => known(v)), 0), n = t.records.length, scale = most || 1;
  const x = (i) => (i / (n - 1)) * width, y = (v) => height - (v / scale) * (height - top);
  const at = pointed();
  const point = (e) => {
    const box = e.currentTarget.getBoundingClientRect();
    pointed.set(Math.max(0, Math.min(n - 1, Math.round(((e.clientX - box.left) / box.width) * (n - 1)))));
  };
  const words = series.map(([name, v]) => `${name} ${value(v, at, say)}`).join(', ');
  return h('figure', null,
    h('figcaption', null,
      h('b', null, title),
      h('span', { class: 'quiet' }, at < 0 ? `at most ${say(most)}` : `${clock(stepTime(t, at))}: ${words}`)),
    h('svg', {
      class: 'chart', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img',
      'aria-label': `${title}: at most ${say(most)}`, onpointermove: point, onpointerleave: () => pointed.set(-1),
    },
      h('path', { class: 'grid', d: `M0 ${top}H${width}M0 ${(height + top) / 2}H${width}` }),
      series.map(([name, v], i) => h('path', {
        key: name, class: (bars ? 'bars' : 'line') + ' line' + (i % 5),
        d: bars ? columns(v, x, y, width / n) : line(v, x, y),
      })),
      at >= 0 ? h('path', { key: 'at', class: 'at', d: `M${x(at)} 0V${height}` }) : null),
    h('div', { class: 'axis quiet' }, h('span', null, clock(stepTime(t, 0))), h('span', null, clock(stepTime(t, n)))),
    series.length > 1
      ? h('ul', { class: 'legend' },
        series.map(([name, v], i) => h('li', { key: name, class: 'key' + (i % 5) },
          name, ' ',
          h('b', null, value(v, at < 0 ? lastKnown(v) : at, say)))))
      : null);
}

const lastKnown = (v) => v.findLastIndex((one) => one !== null);
const value = (v, i, say) => (v[i] === null || v[i] === undefined ? '–' : say(v[i]));

/** A line through the known values; a single one between unknown ones is a dash. */
function line(v, x, y) {
  let d = '';
  v.forEach((one, i) => {
    if (one === null) return;
    const begins = i === 0 || v[i - 1] === null;
    d += `${begins ? 'M' : 'L'}${x(i).toFixed(1)} ${y(one).toFixed(1)}`;
    if (begins && (v[i + 1] === null || v[i + 1] === undefined)) d += 'h2';
  });
  return d;
}

const columns = (v, x, y, wide) => v
  .map((one, i) =>
    (one ? `M${(x(i) - wide / 2).toFixed(1)} ${height}V${y(one).toFixed(1)}h${wide.toFixed(1)}V${height}Z` : ''))
  .join('');

function table({ t, ends, short }) {
  const rows = t.records.map((_, i) => i).filter((i) => t.records[i] !== null).reverse();
  const columns = [['Read/s', t.records, count], ...ends.map(([id, v]) => [`To ${short(id)}/s`, v, count]),
    ['Bytes/s', t.bytes, bytes], ['Latency', t.latency, duration], ['Lag', t.lag, duration],
    ...(t.behind ? [['Behind', t.behind, count]] : []), ['Refused', t.refused, count]];
  return h('div', { class: 'scroll values-box', tabindex: 0, role: 'region', 'aria-label': 'Values over time' },
    h('table', null,
      h('caption', { class: 'hidden' }, 'Values over time, the newest first'),
      h('thead', null,
        h('tr', null,
          h('th', { scope: 'col' }, 'From'),
          columns.map(([name]) => h('th', { key: name, scope: 'col', class: 'num' }, name)))),
      h('tbody', null,
        rows.map((i) => h('tr', { key: i },
          h('th', { scope: 'row', class: 'nowrap' }, when(stepTime(t, i))),
          columns.map(([name, v, say]) => h('td', { key: name, class: 'num' }, value(v, i, say))))))));
}
