/** How does the operator's page begin? */
import { createRoot } from "react-dom/client";
import "../styles/admin.css";
import "../styles/admin-open.css";
import { AdminFeed } from "./feed";
import { AdminPage } from "./AdminPage";

export function boot(container: HTMLElement): void {
  const feed = new AdminFeed();
  createRoot(container).render(<AdminPage feed={feed} />);
  feed.start();
}
