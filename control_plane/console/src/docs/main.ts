// What does the API look like, and what does it answer to a call that is tried out?
//
// A page of its own: the viewer is larger than everything else here, and nobody who plays needs it.
// All of it comes from this server; nothing is fetched from elsewhere.

import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import "./docs.css";

SwaggerUI({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "list",
  tryItOutEnabled: false,
  validatorUrl: null,
});
