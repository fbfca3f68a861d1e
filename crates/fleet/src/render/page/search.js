
// Finds nodes by parts of their names and verdicts. All nodes are in the list of the page, which works without this.
(() => {
  const [box, text, count, found] = ['find', 'find-text', 'find-count', 'found'].map(id => document.getElementById(id));
  const nodes = [...document.querySelectorAll('#all-nodes > li')].map(item => [item.textContent.toLowerCase(), item]);
  const most = 40;
  const show = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(word => word);
    const hits = words.length ? nodes.filter(([name]) => words.every(word => name.includes(word))) : [];
    found.replaceChildren(...hits.slice(0, most).map(([, item]) => item.cloneNode(true)));
    const more = hits.length > most ? `, the first ${most} are shown` : '';
    count.textContent = words.length ? `${hits.length} ${hits.length === 1 ? 'node' : 'nodes'}${more}` : '';
  };
  text.addEventListener('input', show);
  text.addEventListener('keydown', event => {
    const first = found.querySelector('a');
    if (event.key === 'Enter' && first) first.focus();
  });
  box.hidden = false;
  show();
})();
