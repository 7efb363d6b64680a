/** The devices of a namespace: names and kinds for display. */

export type DeviceKind = 'browser' | 'phone' | 'cli';

/** The hub's limit, in characters. */
export const MAX_DEVICE_NAME_LENGTH = 64;

export const DEVICE_KINDS: Record<DeviceKind, string> = { browser: 'Browser', phone: 'Phone', cli: 'Command line' };

/**
 * Browsers by a word of their user agent. The user agent of most browsers also contains words of browsers that are further down in
 * this list.
 */
const BROWSERS: [pattern: RegExp, name: string][] = [
  [/\bEdgA?(iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\b(Firefox|FxiOS)\//, 'Firefox'],
  [/(Chrome|Chromium|CriOS)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
];

const SYSTEMS: [pattern: RegExp, name: string][] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMac OS X\b/, 'Mac'],
  [/\bLinux\b/, 'Linux'],
];

/** Returns the name and the kind that a browser proposes for itself, such as "Safari on iPhone". */
export function describeBrowser(userAgent: string): { name: string; kind: DeviceKind } {
  const find = (table: [RegExp, string][]) => table.find(([pattern]) => pattern.test(userAgent))?.[1];
  const system = find(SYSTEMS);
  const name = find(BROWSERS) ?? 'Browser';
  return {
    name: system === undefined ? name : `${name} on ${system}`,
    kind: /\b(iPhone|Mobile)\b/.test(userAgent) && system !== 'iPad' ? 'phone' : 'browser',
  };
}
