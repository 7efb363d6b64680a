// Provides a global `document`. Import this module before modules that need one.

import { JSDOM } from 'jsdom';

const { window } = new JSDOM('');
Object.assign(globalThis, { window, document: window.document, Node: window.Node });

export const { document } = window;
