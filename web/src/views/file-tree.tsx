/** A tree of folders and files; a folder is read when it is opened. */

import { ChevronRight, FileText, Folder } from 'lucide-preact';
import { useRef, useState } from 'preact/hooks';
import { Virtualizer, type VirtualizerHandle } from 'virtua';
import { sentence } from '../api/errors.ts';
import { type Entry, entriesOf } from '../state/workspace.ts';
import { Failure, sizeOf, Skeleton } from '../ui/pieces.tsx';
import { toastError } from '../ui/toasts.tsx';
import { useRead } from '../ui/use-read.ts';

interface Props {
  id: string;
  open: string | null;
  onOpen: (path: string) => void;
}

/** A line of the tree. */
interface Row extends Entry {
  path: string;
  level: number;
}

/** What is in the folders that are open, by path. */
type Folders = ReadonlyMap<string, Entry[] | 'reading'>;

/** The folders with one that is open, or without it. */
function changed(folders: Folders, path: string, content?: Entry[] | 'reading'): Folders {
  const next = new Map(folders);
  if (content === undefined) next.delete(path);
  else next.set(path, content);
  return next;
}

/** The tree. */
export function FileTree({ id, open, onOpen }: Props) {
  const { value, error, again } = useRead(id, () => entriesOf(id, ''));
  if (error) return <Failure text={error} onRetry={again} />;
  if (!value) return <Skeleton label="Reading the directory" lines={8} />;
  if (value.length === 0) return <p class="empty">The directory is empty.</p>;
  return <Tree id={id} root={value} open={open} onOpen={onOpen} />;
}

function Tree({ id, root, open, onOpen }: Props & { root: Entry[] }) {
  const [folders, setFolders] = useState<Folders>(new Map());
  const [current, setCurrent] = useState(0);
  const list = useRef<VirtualizerHandle>(null);
  const place = useRef<HTMLDivElement>(null);
  const rows = rowsOf(root, '', 1, folders);

  const toggle = async ({ path }: Row) => {
    if (folders.has(path)) {
      setFolders(changed(folders, path));
      return;
    }
    setFolders((before) => changed(before, path, 'reading'));
    try {
      const entries = await entriesOf(id, path);
      setFolders((before) => (before.has(path) ? changed(before, path, entries) : before));
    } catch (error) {
      setFolders((before) => changed(before, path));
      toastError('The folder cannot be read', sentence(error));
    }
  };
  const act = (row: Row) => (row.type === 'directory' ? void toggle(row) : onOpen(row.path));
  const goTo = (at: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, at));
    setCurrent(to);
    list.current?.scrollToIndex(to, { align: 'nearest' });
    requestAnimationFrame(() => place.current?.querySelector<HTMLElement>(`[data-at="${to}"]`)?.focus());
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[current];
    if (!row) return;
    const isOpen = folders.has(row.path);
    const parent = rows.findLastIndex((one, at) => at < current && one.level < row.level);
    if (event.key === 'ArrowDown') goTo(current + 1);
    else if (event.key === 'ArrowUp') goTo(current - 1);
    else if (event.key === 'Home') goTo(0);
    else if (event.key === 'End') goTo(rows.length - 1);
    else if (event.key === 'Enter' || event.key === ' ') act(row);
    else if (event.key === 'ArrowRight' && row.type === 'directory') isOpen ? goTo(current + 1) : void toggle(row);
    else if (event.key === 'ArrowLeft') isOpen ? void toggle(row) : parent >= 0 && goTo(parent);
    else return;
    event.preventDefault();
  };
  return (
    <div class="tree" role="tree" aria-label="Files" ref={place} onKeyDown={onKeyDown}>
      <Virtualizer ref={list} scrollRef={place}>
        {rows.map((row, at) => (
          <div
            key={row.path}
            class="tree-row"
            role="treeitem"
            data-at={at}
            data-level={Math.min(row.level, 12)}
            aria-level={row.level}
            aria-expanded={row.type === 'directory' ? folders.has(row.path) : undefined}
            aria-selected={row.path === open}
            tabIndex={at === current ? 0 : -1}
            onFocus={() => setCurrent(at)}
            onClick={() => act(row)}
          >
            {row.type === 'directory' ? <ChevronRight size={16} aria-hidden class="turns" /> : <span class="tree-gap" />}
            {row.type === 'directory' ? <Folder size={16} aria-hidden /> : <FileText size={16} aria-hidden />}
            <span class="ellipsis">{row.name}</span>
            {row.size !== undefined && <span class="muted tree-size">{sizeOf(row.size)}</span>}
          </div>
        ))}
      </Virtualizer>
    </div>
  );
}

function rowsOf(entries: Entry[], folder: string, level: number, folders: Folders): Row[] {
  return entries.flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    const below = folders.get(path);
    const row = { ...entry, path, level };
    return Array.isArray(below) ? [row, ...rowsOf(below, path, level + 1, folders)] : [row];
  });
}
