/** What tests add to the window of a page, and what their runtimes have and TypeScript's library has not. */

interface Window {
  // biome-ignore lint/suspicious/noExplicitAny: tests keep values of any type there.
  [name: string]: any;
}

interface JSON {
  rawJSON(text: string): unknown;
}

declare const WebSocketPair: new () => { 0: WebSocket; 1: WebSocket };
