// The search of the documentation. A hit is a page in which every word of the query occurs, with the section that fits
// best; if there is none, a page in which most words occur. Names come before titles, titles before texts: a search for
// the name of a plugin finds its page first, and one for the name of a setting the table with this setting.

const filler = new Set(('a an and are can do does for from how i in is it its my of on or the to what when where ' +
  'which why with you').split(' '));

// wordsOf divides a query. Every word also matches without the ending of the plural. Words that say nothing about the
// subject are left out, unless there are no others.
function wordsOf(query) {
  const all = query.toLowerCase().split(/[^a-z0-9.\u0080-\uffff]+/).filter(Boolean);
  const some = all.filter((word) => !filler.has(word));
  return (some.length ? some : all).map((word) => {
    const forms = [word];
    if (word.length > 4 && word.endsWith('ies')) forms.push(word.slice(0, -3) + 'y');
    else if (word.length > 3 && word.endsWith('s')) forms.push(word.slice(0, -1));
    return forms;
  });
}

// begin reports whether a word of the text begins with one of the forms. Words also begin at a capital letter, as in
// batchSize.
function begin(text, forms) {
  return forms.some((form) => text.plain.some((t) => {
    for (let at = t.indexOf(form); at >= 0; at = t.indexOf(form, at + 1)) {
      if (at === 0 || !/[a-z0-9]/.test(t[at - 1])) return true;
    }
    return false;
  }));
}

// prepare makes a text ready for begin.
function prepare(text) {
  const parts = text.replace(/([a-z])(?=[A-Z])/g, '$1 ');
  return { plain: parts === text ? [text.toLowerCase()] : [text.toLowerCase(), parts.toLowerCase()] };
}

// readied returns the prepared texts of a page, which it keeps in the page.
function readied(page) {
  if (!page.ready) {
    page.ready = {
      name: page.name.replace(/^(connector|processor)-/, ''),
      title: prepare(page.title), about: prepare(page.about + ' ' + (page.words || '')),
      sections: page.sections.map((s) => ({
        section: s, title: prepare(s.title || ''), names: (s.names || []).map(prepare), text: prepare(s.text),
      })),
    };
  }
  return page.ready;
}

// match returns how well a section of a page fits the words: points, 0 if more than missing words do not occur, and the
// name of a setting or the like in it that all words fit which the title of the page does not have.
function match(page, s, words, missing) {
  let points = 0;
  for (const forms of words) {
    if (begin(page.title, forms)) points += 20;
    else if (s.names.some((n) => begin(n, forms))) points += 12;
    else if (begin(s.title, forms)) points += 10;
    else if (begin(page.about, forms)) points += 8;
    else if (begin(s.text, forms)) points += 1;
    else if (--missing < 0) return { points: 0 };
  }
  const rest = words.filter((forms) => !begin(page.title, forms));
  const all = (text) => rest.length > 0 && rest.every((forms) => begin(text, forms));
  const name = s.section.names?.filter((_, i) => all(s.names[i])).sort((a, b) => a.length - b.length)[0];
  // Words together are worth more than each in a different place.
  if (rest.length > 1 && (name || all(s.title))) points += 15;
  if (rest.length > 1 && begin(s.text, [rest.map((forms) => forms[0]).join(' ')])) points += 12;
  if (words.length > 1 && rest.length === 0) points += 30;
  return { points, name };
}

// findPages returns the pages for a query, the best first: {page, section, name, points}. Section is that with the best
// fit, and name, if there is one, a setting in it.
function findPages(pages, query) {
  const words = wordsOf(query);
  for (let missing = 0; 2 * missing < words.length; missing++) {
    const hits = findMost(pages, words, missing);
    if (hits.length) return hits;
  }
  return [];
}

// findMost is findPages for pages that may miss some of the words.
function findMost(pages, words, missing) {
  const hits = [];
  for (const page of pages) {
    const ready = readied(page);
    let best = { page, points: 0 };
    for (const s of ready.sections) {
      const { points, name } = match(ready, s, words, missing);
      if (points > best.points) best = { page, section: s.section, name, points };
    }
    if (best.points && words.length === 1 && words[0].includes(ready.name)) best.points += 100;
    if (!best.points) { // the words occur in different sections
      const whole = { title: prepare(''), section: {}, names: [], text: { plain: ready.sections.flatMap((s) =>
        [...s.title.plain, ...s.text.plain, ...s.names.flatMap((n) => n.plain)]) } };
      best = { page, section: page.sections[0], points: match(ready, whole, words, missing).points / 2 };
    }
    if (best.points) hits.push(best);
  }
  return hits.sort((a, b) => b.points - a.points);
}

// linkOf returns where a hit leads.
function linkOf({ page, section, name }) {
  const id = (section.id || '') + (name ? '.' + name : '');
  return page.name + '.html' + (id ? '#' + encodeURIComponent(id) : '');
}

// excerpt returns the text around the first word of a query.
function excerpt(text, query) {
  const lower = text.toLowerCase();
  const places = wordsOf(query).flatMap((forms) => forms.map((form) => lower.indexOf(form))).filter((at) => at >= 0);
  const at = Math.max(0, Math.min(...places, lower.length) - 60);
  return (at ? '…' : '') + text.slice(at, at + 180) + (text.length > at + 180 ? '…' : '');
}
