/** What kind of thing a file's bytes are. */

/** A file, ready to be shown. */
export type FileContent = { kind: 'text'; text: string } | { kind: 'image'; type: string } | { kind: 'binary' };

const IMAGES = new Map(Object.entries({ png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', avif: 'image/avif', ico: 'image/x-icon' }));

/** Sorts a file by its name and its bytes. */
export function contentKind(name: string, bytes: Uint8Array): FileContent {
  const type = IMAGES.get(name.toLowerCase().split('.').at(-1) ?? '');
  if (type) return { kind: 'image', type };
  // No text has a zero byte.
  if (bytes.subarray(0, 8000).includes(0)) return { kind: 'binary' };
  try {
    return { kind: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { kind: 'binary' };
  }
}
