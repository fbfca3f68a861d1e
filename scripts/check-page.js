// Runs in the page. Returns what is wrong, as [kind, what]. Layout is checked where `layout` is true.
layout => {
    const wrong = [];
    const say = (kind, what) => { if (wrong.length < 200) wrong.push([kind, what]); };
    const short = text => JSON.stringify(text.trim().replace(/\s+/g, ' ').slice(0, 50));
    const seen = element => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true, contentVisibilityAuto: true });

    // Every line of text with its box, clipped to the parts that scroll or hide it.
    const clip = (box, element) => {
        let { left, top, right, bottom } = box;
        for (let at = element; at && at !== document.body; at = at.parentElement) {
            if (at instanceof SVGElement && !(at instanceof SVGSVGElement)) continue;
            const style = getComputedStyle(at);
            if (style.overflowX === 'visible' && style.overflowY === 'visible' || at instanceof SVGSVGElement) continue;
            const edge = at.getBoundingClientRect();
            left = Math.max(left, edge.left); right = Math.min(right, edge.right);
            top = Math.max(top, edge.top); bottom = Math.min(bottom, edge.bottom);
        }
        return { left, top, right, bottom };
    };
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        if (!node.data.trim() || ['SCRIPT', 'STYLE', 'TITLE', 'title', 'desc'].includes(element.tagName) || !seen(element)) continue;
        const svg = element.closest('svg');
        const range = document.createRange();
        range.selectNodeContents(node);
        const boxes = svg ? [element.getBoundingClientRect()] : [...range.getClientRects()];
        for (const box of boxes) {
            const part = clip(box, element);
            if (part.right - part.left < 2 || part.bottom - part.top < 2 || part.right < 0) continue;
            texts.push({ element, svg, text: node.data, ...part });
        }
    }

    if (layout) {
        // Boxes have space above and below their letters, and may touch.
        const inner = texts.map(one => {
            const tall = one.bottom - one.top;
            return { ...one, left: one.left + 1, right: one.right - 1, top: one.top + tall * 0.22, bottom: one.bottom - tall * 0.22 };
        }).sort((a, b) => a.top - b.top);
        inner.forEach((a, index) => {
            for (let next = index + 1; next < inner.length && inner[next].top < a.bottom; next += 1) {
                const b = inner[next];
                if (a.left < b.right && b.left < a.right && !(a.element === b.element && !a.svg))
                    say('overlap', `${short(a.text)} and ${short(b.text)}`);
            }
        });
        const root = document.documentElement;
        if (root.scrollWidth > root.clientWidth) say('overflow', `the page is ${root.scrollWidth} px wide`);
        for (const one of texts) {
            if (!one.svg && one.right > root.clientWidth + 1) say('overflow', short(one.text));
            const size = parseFloat(getComputedStyle(one.element).fontSize) * (one.svg ? one.element.getScreenCTM().d : 1);
            if (size < 9) say('small', `${short(one.text)} is ${size.toFixed(1)} px`);
            if (!one.svg) continue;
            const edge = one.svg.getBoundingClientRect();
            if (one.left < edge.left - 1 || one.right > edge.right + 1 || one.top < edge.top - 1 || one.bottom > edge.bottom + 1)
                say('cut', `${short(one.text)} in ${one.svg.id}`);
        }
        for (const line of document.querySelectorAll('svg line.grid, svg line.reference')) {
            if (!seen(line)) continue;
            const box = line.getBoundingClientRect(), svg = line.ownerSVGElement;
            for (const one of inner) {
                if (one.svg === svg && one.left < box.right && box.left < one.right && one.top < box.bottom + 0.1 && box.top - 0.1 < one.bottom)
                    say('grid', `a line through ${short(one.text)} in ${svg.id}`);
            }
        }
    }

    // Contrast: the colour of a text over everything painted below it.
    const parse = colour => {
        const of = colour.match(/[\d.]+/g);
        return of ? [+of[0], +of[1], +of[2], of[3] === undefined ? 1 : +of[3]] : [0, 0, 0, 0];
    };
    const over = (top, below) => [0, 1, 2].map(at => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
    const luminance = colour => {
        const [r, g, b] = colour.slice(0, 3).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => {
        const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
        return (high + 0.05) / (low + 0.05);
    };
    const paint = element => {
        const style = getComputedStyle(element);
        if (!(element instanceof SVGGeometryElement)) return parse(style.backgroundColor);
        const line = style.fill === 'none';
        const colour = parse(line ? style.stroke : style.fill);
        return [...colour.slice(0, 3), colour[3] * (line ? +style.strokeOpacity : +style.fillOpacity) * +style.opacity];
    };
    const background = (x, y, without) => {
        const stack = document.elementsFromPoint(x, y).filter(one => !without.contains(one) && !(one instanceof SVGTextElement));
        let colour = parse(getComputedStyle(document.body).backgroundColor);
        for (const element of stack.reverse()) if (!(element instanceof SVGLineElement)) colour = over(paint(element), colour);
        return colour;
    };
    const known = new Map();
    for (const one of texts) {
        const style = getComputedStyle(one.element);
        const text = parse(one.svg ? style.fill : style.color);
        const [x, y] = [(one.left + one.right) / 2, (one.top + one.bottom) / 2];
        const below = background(x, y, one.element);
        const size = parseFloat(style.fontSize), bold = +style.fontWeight >= 700;
        const least = size >= 24 || bold && size >= 18.66 ? 3 : 4.5;
        const ratio = contrast(over(text, below), below);
        const key = `${text} ${below}`;
        if (ratio < least && !known.has(key)) {
            known.set(key, true);
            say('contrast', `${ratio.toFixed(2)} of ${short(one.text)} (${style[one.svg ? 'fill' : 'color']} on ${below.slice(0, 3).map(Math.round)})`);
        }
    }
    // Marks and lines that carry meaning.
    const paper = parse(getComputedStyle(document.body).backgroundColor);
    for (const mark of document.querySelectorAll('.dot circle, svg .curve, svg .mark, svg .whisker, svg .span')) {
        if (!seen(mark)) continue;
        const style = getComputedStyle(mark);
        const colour = parse(style.fill === 'none' ? style.stroke : style.fill);
        const ratio = contrast(over(colour, paper), paper);
        const key = `mark ${colour}`;
        if (ratio < 3 && !known.has(key)) {
            known.set(key, true);
            say('contrast', `${ratio.toFixed(2)} of a ${mark.getAttribute('class') || 'mark'} (${colour})`);
        }
    }

    // Text alternatives, headings, language, ids and links.
    for (const picture of document.querySelectorAll('svg, img, canvas')) {
        if (picture.closest('[aria-hidden=true]')) continue;
        const by = picture.getAttribute('aria-labelledby');
        const name = picture.getAttribute('aria-label') || picture.getAttribute('alt') ||
            by && by.split(' ').map(id => document.getElementById(id)?.textContent ?? '').join(' ');
        if (picture.tagName !== 'IMG' && picture.getAttribute('role') !== 'img' || !name?.trim())
            say('alternative', `a picture without a text alternative: ${picture.id || picture.outerHTML.slice(0, 60)}`);
    }
    let level = 0;
    for (const heading of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
        const next = +heading.tagName[1];
        if (next > level + 1) say('heading', `${heading.tagName} ${short(heading.textContent)} after level ${level}`);
        level = next;
    }
    if (document.querySelectorAll('h1').length !== 1) say('heading', 'there is not exactly one h1');
    if (!document.documentElement.lang) say('language', 'html has no lang');
    const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
    for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) say('link', `several elements have the id ${id}`);
    for (const link of document.querySelectorAll('a[href^="#"]')) {
        const id = decodeURIComponent(link.getAttribute('href').slice(1));
        if (!document.getElementById(id)) say('link', `#${id} leads nowhere`);
    }
    return wrong;
}
