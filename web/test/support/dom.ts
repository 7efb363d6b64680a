// A document for what needs one. It is there when this module was imported first.

import { JSDOM } from 'jsdom';

const { window } = new JSDOM('');
Object.assign(globalThis, { window, document: window.document, Node: window.Node });

export const { document } = window;
