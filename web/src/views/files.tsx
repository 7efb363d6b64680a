/** The files of the session's directory: a tree or search results, and next to it the open file. */

import './files.css';
import { ArrowLeft } from 'lucide-preact';
import { useState } from 'preact/hooks';
import { useLocation, useSearchParams } from 'wouter-preact';
import type { Session } from '../api/types.ts';
import { MAX_FOUND_FILES, searchFiles } from '../state/workspace.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { SearchField } from '../ui/search.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { FileTree } from './file-tree.tsx';
import { FileViewer } from './file-viewer.tsx';

/** The query parameter `path` holds the open file. */
export function Files({ session }: { session: Session }) {
  const { id } = session;
  const [params] = useSearchParams();
  const [, navigate] = useLocation();
  const [query, setQuery] = useState('');
  const open = params.get('path');
  const openFile = (path: string | null) => navigate(`/sessions/${id}/files${path === null ? '' : `?path=${encodeURIComponent(path)}`}`);
  return (
    <div class="files" data-open={open !== null}>
      <div class="files-side">
        <SearchField label="Search files" placeholder="Search files by name" value={query} onChange={setQuery} />
        {query.trim() === '' ? (
          <FileTree id={id} openPath={open} onOpen={openFile} />
        ) : (
          <SearchResults id={id} query={query.trim()} onOpen={openFile} />
        )}
      </div>
      <div class="files-main">
        {open === null ? (
          <p class="empty">Select a file to view it.</p>
        ) : (
          <>
            <button type="button" class="button quiet files-back" onClick={() => openFile(null)}>
              <ArrowLeft size={18} /> All files
            </button>
            <FileViewer key={open} sessionId={id} path={open} />
          </>
        )}
      </div>
    </div>
  );
}

function SearchResults({ id, query, onOpen }: { id: string; query: string; onOpen: (path: string) => void }) {
  const { value, error, refetch } = useFetch(`${id} ${query}`, () => searchFiles(id, query));
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  if (!value) return <Skeleton label="Searching" />;
  if (value.length === 0) return <p class="empty">No file name matches “{query}”.</p>;
  return (
    <ul role="list" class="search-results" aria-label="Search results">
      {value.length >= MAX_FOUND_FILES && (
        <li class="muted small">The first {MAX_FOUND_FILES} matches. Type more of the name to find others.</li>
      )}
      {value.map((path) => (
        <li key={path}>
          <button type="button" onClick={() => onOpen(path)}>
            <span>
              <EscapedText text={path.slice(path.lastIndexOf('/') + 1)} />
            </span>
            <span class="mono muted ellipsis">
              <EscapedText text={path} />
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
