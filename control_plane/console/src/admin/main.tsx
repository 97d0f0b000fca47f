/** How does the operator's page begin? */
import { createRoot } from "react-dom/client";
import "../styles/tokens.css";
import "../styles/base.css";
import "../styles/card.css";
import "../styles/admin.css";
import "../styles/admin-open.css";
import { AdminFeed } from "./feed";
import { AdminPage } from "./AdminPage";

const container = document.getElementById("root");
if (container === null) throw new Error("admin.html has no #root");
const feed = new AdminFeed();
createRoot(container).render(<AdminPage feed={feed} />);
feed.start();
