/** What the tab keeps across reloads. */

/**
 * Keeps a text for as long as the tab is there. A browser gives some 5 MB to all of them: what does not fit is kept in
 * memory alone, by whoever has it, and what was kept before under this key stays.
 */
export function keep(shelf: Pick<Storage, 'setItem'>, key: string, text: string): void {
  try {
    shelf.setItem(key, text);
  } catch (error) {
    console.warn(`The browser does not keep “${key}” across a reload.`, error);
  }
}
