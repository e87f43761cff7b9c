// How values read: numbers, times, sizes, records.

export const plural = (n, one, many = one + 's') => `${n} ${n === 1 ? one : many}`;

export function count(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return '–';
  const a = Math.abs(n);
  if (a >= 1e9) return trim(n / 1e9) + ' G';
  if (a >= 1e6) return trim(n / 1e6) + ' M';
  if (a >= 1e4) return trim(n / 1e3) + ' k';
  if (a >= 100 || Number.isInteger(n)) return Math.round(n).toLocaleString('en');
  return n.toFixed(a < 10 ? 1 : 0);
}

const trim = (n) => n.toFixed(Math.abs(n) < 10 ? 2 : Math.abs(n) < 100 ? 1 : 0);

export function bytes(n) {
  if (n === undefined || n === null) return '–';
  let i = 0;
  while (n >= 1024 && i < 5) { n /= 1024; i++; }
  return (i ? trim(n) : Math.round(n)) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][i];
}

/** A duration in seconds. */
export function duration(s) {
  if (s === undefined || s === null) return '–';
  if (s < 0.001) return s > 0 ? '<1 ms' : '0 ms';
  if (s < 1) return Math.round(s * 1000) + ' ms';
  if (s < 90) return trim(s) + ' s';
  if (s < 5400) return Math.round(s / 60) + ' min';
  if (s < 129600) return Math.round(s / 3600) + ' h';
  return Math.round(s / 86400) + ' d';
}

export function clock(at) {
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return '–';
  const time = d.toLocaleTimeString('en-GB');
  return d.toDateString() === new Date().toDateString() ? time : d.toLocaleDateString('en-CA') + ' ' + time;
}

/** Nanoseconds since 1970, as text, as people read it. */
export function nanos(text) {
  if (!/^\d{16,20}$/.test(text)) return '';
  const ms = Number(BigInt(text) / 1000000n);
  return new Date(ms).toISOString().replace('T', ' ').replace('Z', '');
}

export function fromBase64(text) {
  const binary = atob(text || '');
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

/** Bytes in base64 as the JSON form of a record has them: text, or "base64:…" when they are none. */
export function readableBytes(base64) {
  const text = asText(fromBase64(base64));
  return text === null || text.startsWith('base64:') ? 'base64:' + base64 : text;
}

/** A record of the inspector in the form of dead letters and of dry runs. */
export function readableRecord(r) {
  const data = (d) => (d ? d.structuredData ?? readableBytes(d.rawData) : null);
  return {
    position: readableBytes(r.position), operation: r.operation.slice('OPERATION_'.length).toLowerCase(),
    metadata: r.metadata, key: data(r.key), payload: { before: data(r.payload.before), after: data(r.payload.after) },
  };
}

/** Text of bytes, or null when they are none. */
export function asText(raw) {
  try { return new TextDecoder('utf-8', { fatal: true }).decode(raw); } catch { return null; }
}

export function hex(raw) {
  const rows = [];
  for (let i = 0; i < raw.length; i += 16) {
    const row = [...raw.slice(i, i + 16)];
    rows.push(i.toString(16).padStart(6, '0') + '  '
      + row.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(48)
      + ' ' + row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join(''));
  }
  return rows.join('\n');
}

/** The version that runs against the one that is declared, in words. */
export function version(s) {
  const state = s.state, failed = state.lastAttempt?.error && state.lastAttempt.generation !== state.runningGeneration;
  if (state.runningGeneration && failed)
    return `runs version ${state.runningGeneration}; version ${state.lastAttempt.generation} failed`;
  if (state.runningGeneration && state.runningGeneration !== s.generation)
    return `runs version ${state.runningGeneration}; version ${s.generation} is next`;
  if (state.runningGeneration) return `runs version ${state.runningGeneration}`;
  if (state.lastAttempt?.error) return `version ${state.lastAttempt.generation} failed`;
  return `version ${s.generation} does not run`;
}

export const condition = (s, type) => s.conditions.find((c) => c.type === type);
export const isTrue = (s, type) => condition(s, type)?.status === 'True';

/** Whether a pipeline runs and delivers what it reads. */
export const delivers = (s) => s.state.phase === 'running' && !s.state.stall;

/** Whether a person, or the declaration, has stopped a pipeline. */
const stopped = (s) => s.state.phase === 'stopped' && (s.override || s.declared) === 'stopped';

/**
 * How badly a pipeline needs attention, 0 for not at all. A pipeline that was stopped on purpose needs it only for a
 * problem of its file.
 */
export function severity(s) {
  if (stopped(s)) return isTrue(s, 'Conflict') || condition(s, 'Valid')?.status === 'False' ? 2 : 0;
  if (s.state.phase === 'degraded') return 4;
  if (s.state.phase === 'recovering' || s.state.stall) return 3;
  if (isTrue(s, 'RolledBack') || s.placement?.failed) return 3;
  if (isTrue(s, 'Conflict') || condition(s, 'Valid')?.status === 'False') return 2;
  if (isTrue(s, 'PluginChanged')) return 1;
  return 0;
}

/** Where a pipeline is declared. */
export function place(owner) {
  return owner.kind === 'file' ? owner.path + (owner.line ? ':' + owner.line : '') : 'API';
}
