// The topology of a pipeline as a drawing: sources, processors, destinations, dead letters.
// Layout by layers: a column for each stage, a row for each node, links as curves.

import { h } from './ui.js';
import { count, bytes } from './format.js';

const nodeHeight = 74, gapX = 84, gapY = 18, margin = 12;
const narrow = matchMedia('(max-width: 820px)'); // there the columns are rows
const nodeWidth = () => (narrow.matches ? 156 : 180);

/** Columns of nodes {id, title, sub, kind, href, note, slow} and links {from, to, label, kind} of a pipeline. */
export function topology(p, rate) {
  const own = (c) => p.processors.filter((x) => x.parent.id === c.id);
  const sources = p.connectors.filter((c) => c.type === 'TYPE_SOURCE'),
    destinations = p.connectors.filter((c) => c.type === 'TYPE_DESTINATION');
  const common = p.processors.filter((x) => x.parent.type === 'TYPE_PIPELINE');
  const columns = [], links = [];
  const put = (column, node) => { (columns[column] ||= []).push(node); return node; };
  const depth = Math.max(0, ...sources.map((c) => own(c).length)),
    tail = Math.max(0, ...destinations.map((c) => own(c).length));
  const chain = (from, list, column) => list.reduce((before, x, i) => {
    const node = put(column + i, processorNode(x, rate));
    links.push({ from: before, to: node, label: edge(rate(before.id)) });
    return node;
  }, from);
  const ends = sources.map((c) => chain(put(0, connectorNode(c, rate)), own(c), 1));
  const first = 1 + depth, after = first + common.length;
  let heads = ends;
  if (common.length) {
    const node = put(first, processorNode(common[0], rate));
    for (const e of ends) links.push({ from: e, to: node, label: edge(rate(e.id)) });
    heads = [chain(node, common.slice(1), first + 1)];
  }
  for (const c of destinations) {
    const list = own(c), node = connectorNode(c, rate), stages = [];
    list.forEach((x, i) => stages.push(put(after + tail - list.length + i, processorNode(x, rate))));
    put(after + tail, node);
    [...stages, node].reduce((from, to, i) => {
      for (const f of i ? [from] : heads) {
        links.push({ from: f, to, label: edge(rate(i ? from.id : c.id)), title: i ? '' : route(c) });
      }
      return to;
    }, null);
  }
  const dead = put(after + tail, { id: 'dlq', title: 'dead letters', sub: p.dlq?.plugin || '', kind: 'dlq' });
  const lastSource = heads[0];
  if (lastSource) links.push({ from: lastSource, to: dead, kind: 'dlq', label: p.refused ? count(p.refused) : '' });
  for (const l of links) {
    l.slow = l.to.slow || (l.from.kind === 'source' && l.from.slow);
    l.fans = links.some((o) => o !== l && o.from === l.from); // its label stands at its end, otherwise at its beginning
  }
  return { columns: columns.filter(Boolean), links };
}

/** Which records a destination gets. */
export const route = (c) =>
  (c.config.condition ? `if ${c.config.condition}` : c.config.default ? 'if no condition is true' : '');

const edge = (r) => (r ? `${count(r.records)}/s` : '');

function connectorNode(c, rate) {
  const r = rate(c.id), id = c.id.slice(c.pipelineId.length + 1);
  return {
    id: c.id, title: c.config.name || id, sub: c.plugin, kind: c.type === 'TYPE_SOURCE' ? 'source' : 'destination',
    note: [
      r?.waiting ? 'no record yet' : r?.backlog?.error ? 'failing' : r ? bytes(r.bytes) + '/s' : '',
      r?.rawLane === 'on' ? 'raw lane' : '',
      c.config.condition ? 'conditional' : c.config.default ? 'default' : '',
      r?.backlog ? (r.backlog.records ? `${count(r.backlog.records)} wait` : 'isolated') : '',
    ].filter(Boolean).join(' · '),
    slow: r?.slow,
  };
}

function processorNode(x, rate) {
  const r = rate(x.id);
  return {
    id: x.id, title: x.id.split(':').pop(), sub: x.plugin, kind: 'processor',
    note: r?.refused ? `${count(r.refused)} refused/s` : x.condition ? 'conditional' : '', slow: r?.slow,
  };
}

/** Draws a topology. pick is called with the id of a node that is chosen. */
export function graph({ columns, links }, { pick, chosen }) {
  if (narrow.matches) { // the dead letters have a row of their own
    const dead = columns.flat().filter((n) => n.kind === 'dlq');
    columns = [...columns.map((c) => c.filter((n) => n.kind !== 'dlq')), dead];
  }
  // Nodes of a column stand in the order of the middle of those that lead to them.
  const most = Math.max(...columns.map((c) => c.length)), down = narrow.matches, nodeWide = nodeWidth();
  // Along the way of the records stand the layers, across it the nodes of each.
  const [size, other] = down ? [nodeHeight, nodeWide] : [nodeWide, nodeHeight], gap = down ? 46 : gapX,
    between = down ? 12 : gapY;
  const along = columns.length * (size + gap) - gap + 2 * margin,
    across = most * (other + between) - between + 2 * margin;
  columns.forEach((column, layer) => {
    if (layer) {
      const middle = (n) => {
        const from = links.filter((l) => l.to === n && l.from.across !== undefined);
        return n.kind === 'dlq' ? Infinity
          : from.length ? from.reduce((s, l) => s + l.from.across, 0) / from.length : 0;
      };
      column.sort((a, b) => middle(a) - middle(b));
    }
    const start = (across - (column.length * (other + between) - between)) / 2;
    column.forEach((n, i) => {
      n.across = start + i * (other + between);
      const at = margin + layer * (size + gap);
      [n.x, n.y] = down ? [n.across, at] : [at, n.across];
    });
  });
  const [width, height] = down ? [across, along] : [along, across];
  return h('div', { class: 'graph scroll', tabindex: 0, role: 'group', 'aria-label': 'How records flow' },
    h('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'topology' },
      links.map((l) => link(l, down)), columns.flat().map((n) => node(n, pick, chosen))));
}

function link(l, down) {
  const [x1, y1, x2, y2] = down
    ? [l.from.x + nodeWidth() / 2, l.from.y + nodeHeight, l.to.x + nodeWidth() / 2, l.to.y]
    : [l.from.x + nodeWidth(), l.from.y + nodeHeight / 2, l.to.x, l.to.y + nodeHeight / 2];
  const bend = Math.max(20, (down ? y2 - y1 : x2 - x1) / 2);
  const curve = down ? `${x1} ${y1 + bend} ${x2} ${y2 - bend}` : `${x1 + bend} ${y1} ${x2 - bend} ${y2}`;
  // Labels stand where curves are nearly straight and no other begins or ends.
  const label = down
    ? {
      x: l.fans ? x2 + 7 : x1 + (x2 > x1 ? -7 : 7), y: l.fans ? y2 - 8 : y1 + 15,
      'text-anchor': !l.fans && x2 > x1 ? 'end' : 'start',
    }
    : l.fans ? { x: x2 - 5, y: y2 + (y1 > y2 ? -7 : y1 < y2 ? 15 : -5), 'text-anchor': 'end' }
    : { x: x1 + 6, y: y1 + (y2 < y1 ? 15 : -7) };
  return h('g', {
    key: l.from.id + '>' + l.to.id,
    class: 'edge ' + (l.kind || '') + (l.slow ? ' slow' : '') + (l.slow && !l.to.slow ? ' waits' : ''),
  },
    l.title ? h('title', null, l.title) : null,
    h('path', { d: `M${x1} ${y1}C${curve} ${x2} ${y2}` }),
    l.label ? h('text', label, l.label) : null);
}

const clip = (text, n) => (text.length > n ? text.slice(0, n - 1) + '…' : text);

function node(n, pick, chosen) {
  const go = n.kind === 'dlq' ? null : () => pick(n.id);
  return h('g', { key: n.id, class: `node ${n.kind}${n.slow ? ' slow' : ''}${chosen === n.id ? ' chosen' : ''}`,
    transform: `translate(${n.x} ${n.y})`,
    role: go ? 'button' : 'img', tabindex: go ? 0 : null, 'aria-label': go ? null : `${n.title}: ${n.sub}`, onclick: go,
    onkeydown: go && ((e) => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); go(); } }) },
    h('title', null, [n.title, n.sub, n.slow, n.note].filter(Boolean).join('\n')),
    h('rect', { width: nodeWidth(), height: nodeHeight, rx: 8 }),
    h('text', { x: 12, y: 23, class: 'name' }, clip(n.title, 22)),
    h('text', { x: 12, y: 39, class: 'sub' }, clip(n.sub, 26)),
    n.slow
      ? words(n.slow).map((line, i) => h('text', { x: 12, y: 54 + 13 * i, class: 'words' }, clip(line, 27)))
      : h('text', { x: 12, y: 55, class: 'sub' }, n.note));
}

/** Who waits for whom, in one line or in two. */
const words = (text) => (text.length <= 24 ? [text] : text.split(/(?= waits? )/).map((part) => part.trim()));
