/** A fake of the browser's `localStorage` or `sessionStorage`. */
export class FakeStorage implements Storage {
  #values = new Map<string, string>();

  [name: string]: unknown;

  get length(): number {
    return this.#values.size;
  }

  key(index: number): string | null {
    return [...this.#values.keys()][index] ?? null;
  }

  getItem(key: string): string | null {
    return this.#values.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    this.#values.set(key, value);
  }

  removeItem(key: string): void {
    this.#values.delete(key);
  }

  clear(): void {
    this.#values.clear();
  }

  keys(): string[] {
    return [...this.#values.keys()].sort();
  }
}
