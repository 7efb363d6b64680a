/** The way between the main views: at the bottom of a phone, in a column beside the list on a desk. */

import { Archive, Bot, Plus, Server, Settings } from 'lucide-preact';
import { Link, useRoute } from 'wouter-preact';

const PLACES = [
  { to: '/', label: 'Sessions', Icon: Bot },
  { to: '/machines', label: 'Machines', Icon: Server },
  { to: '/new', label: 'New', Icon: Plus },
  { to: '/archive', label: 'Archive', Icon: Archive },
  { to: '/settings', label: 'Settings', Icon: Settings },
];

/** The bar. */
export function NavBar() {
  return (
    <nav class="nav-bar" aria-label="Views">
      {PLACES.map((place) => (
        <Place key={place.to} {...place} />
      ))}
    </nav>
  );
}

function Place({ to, label, Icon }: (typeof PLACES)[number]) {
  const [isHere] = useRoute(to);
  return (
    <Link href={to} class={to === '/new' ? 'nav-place new' : 'nav-place'} aria-current={isHere ? 'page' : undefined}>
      <Icon size={20} aria-hidden />
      <span>{label}</span>
    </Link>
  );
}
